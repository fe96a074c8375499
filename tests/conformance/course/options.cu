// Prices of options by Black and Scholes, in float and in double, with the math library's functions.
#include "course.h"

template <typename T>
__device__ __host__ T normal(T x) { return T(0.5) * erfc(-x * T(0.70710678118654752)); }

template <typename T>
__device__ __host__ T call_price(T spot, T strike, T years) {
    const T rate = T(0.02), volatility = T(0.3);
    const T d1 = (log(spot / strike) + (rate + volatility * volatility / 2) * years) / (volatility * sqrt(years));
    return spot * normal(d1) - strike * exp(-rate * years) * normal(d1 - volatility * sqrt(years));
}

template <typename T>
__global__ void price(const T* spot, const T* strike, const T* years, T* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = call_price(spot[i], strike[i], years[i]);
}

template <typename T>
void one(const char* name, double tolerance) {
    const int n = 1000;
    Random random(15);
    std::vector<T> spot(n), strike(n), years(n), want(n);
    for (int i = 0; i < n; ++i) {
        spot[i] = 5 + 25 * random.unit();
        strike[i] = 1 + 99 * random.unit();
        years[i] = T(0.25) + T(9.75) * random.unit();
        want[i] = static_cast<T>(call_price<double>(spot[i], strike[i], years[i]));
    }
    Device<T> a(spot), b(strike), c(years), out(n);
    price<T><<<4, 256>>>(a, b, c, out, n);
    CHECK_LAUNCH();
    compare(name, out.host(), want, tolerance);
}

int main() {
    one<float>("float", 1e-5);
    one<double>("double", 1e-13);
}
