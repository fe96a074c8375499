"""PTX that Triton 3.9 made of its tutorials' kernels for compute capability 7.5, and 8.0 (matmul).

Blocks are of 4 warps. Sizes and strides were declared multiples of 16. A launch gives two pointers more than
the kernel's source names: scratch memory that none of these uses. Debug sections and places are taken out.
"""
