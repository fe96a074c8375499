// Vector addition with a grid-stride loop, for sizes that fill no block and for none at all.
#include "course.h"

__global__ void add(const float* a, const float* b, float* c, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) c[i] = a[i] + b[i];
}

int main() {
    for (int n : {1, 31, 1000, 100003}) {
        Random random(n);
        std::vector<float> a(n), b(n), want(n);
        for (int i = 0; i < n; ++i) want[i] = (a[i] = random.unit()) + (b[i] = random.unit());
        Device<float> da(a), db(b), dc(n);
        add<<<64, 256>>>(da, db, dc, n);
        CHECK_LAUNCH();
        compare("sum", dc.host(), want);
    }
}
