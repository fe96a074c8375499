// The Mandelbrot set: neighbours that leave their loop at different times.
#include "course.h"

__global__ void mandelbrot(unsigned char* picture, int width, int height, int limit) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    const double re = -2.25 + 3.0 * x / width, im = -1.2 + 2.4 * y / height;
    double a = 0, b = 0;
    int n = 0;
    while (n < limit && a * a + b * b < 4) {
        const double next = a * a - b * b + re;
        b = 2 * a * b + im;
        a = next;
        ++n;
    }
    picture[y * width + x] = static_cast<unsigned char>(n);
}

int main() {
    const int width = 72, height = 24;
    Device<unsigned char> picture(width * height);
    mandelbrot<<<dim3(9, 3), dim3(8, 8)>>>(picture, width, height, 100);
    CHECK_LAUNCH();
    const auto shades = picture.host();
    for (int y = 0; y < height; ++y) {
        for (int x = 0; x < width; ++x) {
            const int n = shades[y * width + x];
            putchar(n == 100 ? '#' : n > 12 ? '+' : n > 6 ? '-' : n > 3 ? '.' : ' ');
        }
        putchar('\n');
    }
}
