// Linked by a program itself, with the device runtime's library.
__global__ void child(int* value) {
    atomicAdd(value, 1);
}

extern "C" __global__ void parent(int* value) {
    child<<<2, 32>>>(value);
}
