"""The kernel provisioner ``gpu-slice``: a slice of a GPU for every kernel whose spec names a size."""

from gpu_kernels.provisioner.provisioner import GPUSliceProvisioner, KernelDiedAtOnce, NoSlice

__all__ = ["GPUSliceProvisioner", "KernelDiedAtOnce", "NoSlice"]
