from gpu_kernels.remoting.agent.app import main

main()
