"""The kernel specs that students choose from, and their installer. Imports only ``gpu_kernels.units``."""
