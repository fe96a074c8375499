// Objects made on the device, with virtual functions, a function table, and recursion.
#include "course.h"

struct Shape {
    __device__ virtual ~Shape() {}
    __device__ virtual float area() const = 0;
};
struct Square : Shape {
    float side;
    __device__ explicit Square(float s) : side(s) {}
    __device__ float area() const override { return side * side; }
};
struct Circle : Shape {
    float radius;
    __device__ explicit Circle(float r) : radius(r) {}
    __device__ float area() const override { return 3 * radius * radius; }
};

__global__ void build(Shape** shapes, int n) {
    const int i = threadIdx.x;
    if (i >= n) return;
    if (i % 2) {
        shapes[i] = new Square(i);
    } else {
        shapes[i] = new Circle(i);
    }
}

__global__ void measure(Shape** shapes, float* out, int n) {
    if (threadIdx.x < n) out[threadIdx.x] = shapes[threadIdx.x]->area();
}

__global__ void destroy(Shape** shapes, int n) {
    if (threadIdx.x < n) delete shapes[threadIdx.x];
}

using Operation = int (*)(int, int);
__device__ int plus(int a, int b) { return a + b; }
__device__ int times(int a, int b) { return a * b; }
__device__ Operation operations[] = {plus, times};

__device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

__global__ void choose(int* out) {
    out[threadIdx.x] = operations[threadIdx.x % 2](threadIdx.x, 10) + 1000 * fibonacci(threadIdx.x);
}

int main() {
    const int n = 6;
    Device<Shape*> shapes(n);
    Device<float> areas(n);
    build<<<1, 32>>>(shapes, n);
    measure<<<1, 32>>>(shapes, areas, n);
    destroy<<<1, 32>>>(shapes, n);
    CHECK_LAUNCH();
    for (float area : areas.host()) printf("%g ", area);
    printf("\n");
    CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
    Device<int> out(12);
    choose<<<1, 12>>>(out);
    CHECK_LAUNCH();
    for (int x : out.host()) printf("%d ", x);
    printf("\n");
}
