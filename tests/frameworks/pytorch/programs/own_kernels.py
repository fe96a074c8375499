"""Kernels in CUDA C++ that PyTorch compiles while it runs, to machine code: its own functions for that."""

import torch

ADD = """
__global__ void add(const float* a, const float* b, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}
"""
FUSED = "template <typename T> T fused(T x, T y, T scale) { return x * y + scale * y; }"

a, b = torch.rand(1000, device="cuda"), torch.rand(1000, device="cuda")
out = torch.empty_like(a)
torch.cuda._compile_kernel(ADD, "add")((4, 1, 1), (256, 1, 1), (a, b, out, 1000))
print("a kernel", torch.equal(out, a + b))

fused = torch.cuda.jiterator._create_jit_fn(FUSED, scale=3.0)
print("an operator", torch.allclose(fused(a, b), a * b + 3 * b))
half = fused(a.half(), b.half(), scale=1.0)
print("of halves", half.dtype, torch.allclose(half, a.half() * b.half() + b.half(), atol=1e-2))
try:
    torch.cuda._compile_kernel("__global__ void wrong() { nothing; }", "wrong")
except RuntimeError as error:
    print("an error", 'identifier "nothing" is undefined' in str(error))
