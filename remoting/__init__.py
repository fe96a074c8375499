"""The CUDA-forwarding runtime: native client, worker and software GPU, the agent that starts workers,
and ``environment``, which says what a process needs to run under it. Knows no courses.
"""

if __name__ != "gpu_kernels.remoting":
    raise ImportError("This package is imported as gpu_kernels.remoting.")
