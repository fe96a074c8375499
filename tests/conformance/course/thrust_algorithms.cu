// Thrust: vectors, transformations, reductions, sorting, scans, searches.
#include <thrust/count.h>
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <thrust/inner_product.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/unique.h>

#include <cstdio>

struct Square {
    __host__ __device__ int operator()(int x) const { return x * x; }
};

int main() {
    thrust::device_vector<int> numbers(1000);
    thrust::sequence(numbers.begin(), numbers.end());
    thrust::device_vector<int> squares(numbers.size());
    thrust::transform(numbers.begin(), numbers.end(), squares.begin(), Square());
    std::printf("sum of squares: %d\n", thrust::reduce(squares.begin(), squares.end()));
    std::printf("product: %d\n", thrust::inner_product(numbers.begin(), numbers.begin() + 10, numbers.begin(), 0));

    thrust::host_vector<int> shuffled(5000);
    unsigned state = 1;
    for (int& x : shuffled) x = static_cast<int>((state = state * 1664525u + 1013904223u) >> 20);
    thrust::device_vector<int> sorted = shuffled;
    thrust::sort(sorted.begin(), sorted.end());
    thrust::host_vector<int> got = sorted, want = shuffled;
    thrust::sort(want.begin(), want.end());
    std::printf("sorted: %s\n", got == want ? "as on the CPU" : "wrong");

    const auto end = thrust::unique(sorted.begin(), sorted.end());
    const auto last = thrust::unique(want.begin(), want.end());
    std::printf("different values: %s\n", end - sorted.begin() == last - want.begin() ? "as many as on the CPU" : "wrong");

    thrust::device_vector<int> sums(numbers.size());
    thrust::inclusive_scan(numbers.begin(), numbers.end(), sums.begin());
    std::printf("sums: %d %d %d\n", static_cast<int>(sums[1]), static_cast<int>(sums[10]), static_cast<int>(sums[999]));

    // Blocks hand sums on to the next: a sum and the word that it is ready stand in one vector of 16 bytes.
    const int n = 200000, run = 37, rounds = 5;
    thrust::host_vector<int> keys(n), ones(n, 1);
    for (int i = 0; i < n; ++i) keys[i] = i / run;
    thrust::device_vector<int> by = keys, count = ones, key(n), length(n);
    int right = 0;
    for (int round = 0; round < rounds; ++round) {
        const auto ends = thrust::reduce_by_key(by.begin(), by.end(), count.begin(), key.begin(), length.begin());
        const int runs = static_cast<int>(ends.first - key.begin());
        const int full = static_cast<int>(thrust::count(length.begin(), length.begin() + n / run, run));
        right += runs == (n + run - 1) / run && full == n / run;
    }
    std::printf("runs: right in %d of %d rounds\n", right, rounds);
    thrust::device_vector<double> halves(n, 0.5), running(n);
    right = 0;
    for (int round = 0; round < rounds; ++round) {
        thrust::inclusive_scan(halves.begin(), halves.end(), running.begin());
        const thrust::host_vector<double> seen = running;
        bool all = true;
        for (int i = 0; i < n; ++i) all = all && seen[i] == 0.5 * (i + 1);
        right += all;
    }
    std::printf("running sums: right in %d of %d rounds\n", right, rounds);
}
