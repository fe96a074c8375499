// Many launches of a kernel that lacks a barrier.
__global__ void child(int* out) {
    __shared__ int values[64];
    values[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = values[63 - threadIdx.x];
}

__global__ void parent(int* out) {
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    child<<<1, 64, 0, stream>>>(out);
    cudaStreamDestroy(stream);
}

int main() {
    int* out;
    if (cudaMalloc(&out, 64 * sizeof(int)) != cudaSuccess) return 1;
    parent<<<3, 20>>>(out);
    return cudaDeviceSynchronize();
}
