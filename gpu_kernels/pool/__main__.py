"""``python -m gpu_kernels.pool``"""

from gpu_kernels.extras import needed

with needed("controller", "python -m gpu_kernels.pool"):
    from gpu_kernels.pool.app import main

main()
