#include "software_limits.h"

#include <algorithm>
#include <string>

namespace maths {
namespace {

constexpr double kMostOperations = 1e13, kTera = 1e12;
constexpr uint64_t kBuffer = 32 << 20, kMostThreads = 64;  // OpenBLAS has no more

std::string tera(double number) {
    return std::to_string(static_cast<int64_t>(std::min(number / kTera, 1e18)));
}

}  // namespace

void limit_operations(Look& look, Type type, double operations) {
    const double all = operations * (is_complex(type) ? 4 : 1);
    if (all <= kMostOperations || look.end().threads == 0) return;
    look.refuse(Fit::unsupported,
                "it takes " + tera(all) +
                    " million million operations, which nothing can interrupt; a software GPU does " +
                    tera(kMostOperations) + ": give it smaller matrices, or take a slice of a GPU");
}

int64_t most_elements(uint64_t element_bytes, uint64_t threads) {
    return static_cast<int64_t>(kBuffer / element_bytes /
                                (std::clamp<uint64_t>(threads, 1, kMostThreads) + 2));
}

void limit_vectors(Look& look, Type type, int64_t elements) {
    const uint64_t bytes = bytes_of(type);
    if (bytes == 0 || elements <= most_elements(bytes, kMostThreads)) return;
    const uint64_t threads = look.end().threads;
    if (threads == 0 || elements <= most_elements(bytes, threads)) return;
    look.refuse(Fit::unsupported, "it has vectors of " + std::to_string(elements) +
                                      " elements; a software GPU does " +
                                      std::to_string(most_elements(bytes, threads)) +
                                      " of this type: call it for parts of them, or take a slice of a GPU");
}

}  // namespace maths
