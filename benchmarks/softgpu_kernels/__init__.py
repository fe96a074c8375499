"""The kernels of a CUDA course, which ``benchmarks.softgpu`` times on a CUDA device and on the CPU."""
