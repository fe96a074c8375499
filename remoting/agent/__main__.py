from gpu_kernels.extras import needed

with needed("agent", "python -m gpu_kernels.remoting.agent"):
    from gpu_kernels.remoting.agent.app import main

main()
