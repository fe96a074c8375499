// A bitonic sort in global memory, one launch a stage.
#include <algorithm>

#include "course.h"

__global__ void stage(int* data, int distance, int width) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, other = i ^ distance;
    if (other <= i) return;
    const bool up = (i & width) == 0;
    const int a = data[i], b = data[other];
    if ((a > b) == up) {
        data[i] = b;
        data[other] = a;
    }
}

int main() {
    const int n = 4096;
    Random random(9);
    std::vector<int> in(n);
    for (int& x : in) x = static_cast<int>(random.next());
    Device<int> data(in);
    for (int width = 2; width <= n; width *= 2)
        for (int distance = width / 2; distance > 0; distance /= 2) stage<<<n / 256, 256>>>(data, distance, width);
    CHECK_LAUNCH();
    std::sort(in.begin(), in.end());
    compare("sorted", data.host(), in);
}
