__device__ int bonus = 1;

__device__ int twice(int value) { return 2 * value; }
