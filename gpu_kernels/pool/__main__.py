"""``python -m gpu_kernels.pool``"""

from gpu_kernels.pool.app import main

main()
