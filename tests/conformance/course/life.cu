// The game of life on a torus: a glider that comes back after it has gone all the way round.
#include <utility>

#include "course.h"

__global__ void generation(const bool* from, bool* to, int width, int height) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int neighbours = 0;
    for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx)
            if (dx || dy) neighbours += from[(y + dy + height) % height * width + (x + dx + width) % width];
    const bool alive = from[y * width + x];
    to[y * width + x] = neighbours == 3 || (alive && neighbours == 2);
}

int main() {
    const int size = 16;
    Device<bool> field(size * size), next(size * size);
    CHECK(cudaMemset(field, 0, size * size));
    const int glider[] = {1, size + 2, 2 * size, 2 * size + 1, 2 * size + 2};
    for (int at : glider) CHECK(cudaMemset(field.data + at, 1, 1));
    bool *from = field, *to = next;
    for (int i = 0; i <= 4 * size; ++i) {
        if (i % (2 * size) == 0) {
            bool picture[size * size];
            CHECK(cudaMemcpy(picture, from, sizeof picture, cudaMemcpyDeviceToHost));
            printf("generation %d:", i);
            for (int at = 0; at < size * size; ++at)
                if (picture[at]) printf(" %d,%d", at % size, at / size);
            printf("\n");
        }
        generation<<<dim3(2, 2), dim3(8, 8)>>>(from, to, size, size);
        std::swap(from, to);
    }
    CHECK_LAUNCH();
    CHECK(cudaDeviceSynchronize());
}
