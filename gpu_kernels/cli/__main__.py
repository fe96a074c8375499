from gpu_kernels.cli import main

main()
