// What both drivers say when they refuse, in the same words.
#include <atomic>
#include <cstdio>
#include <string>

#include "cuda_abi.h"
#include "unsupported.h"

namespace {

std::string in_words(size_t bytes) {
    static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    int unit = 0;
    double value = static_cast<double>(bytes) / 1024;
    for (; value >= 1024 && unit < 5; ++unit) value /= 1024;
    char text[64];
    std::snprintf(text, sizeof text, "%zu bytes (%.1f %s)", bytes, value, kUnits[unit]);
    return text;
}

}  // namespace

extern "C" {

void gk_unsupported(const char* name) {
    cuda::say_unsupported(name, "CUDA_ERROR_NOT_SUPPORTED",
                          [](const std::string& text) { gk_tell_user(text.c_str()); });
}

CUresult gk_unsupported_once(const char* name, bool* told) {
    if (!__atomic_exchange_n(told, true, __ATOMIC_RELAXED)) gk_unsupported(name);
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult gk_no_pinned_memory(size_t bytes) {
    constexpr int kMost = 5;
    static std::atomic<int> told{0};
    if (told.fetch_add(1) < kMost) {
        gk_tell_user(("no pinned memory of " + in_words(bytes) +
                      ": the program's own machine has not so much to give. Ask for less, or copy in pieces "
                      "through a smaller buffer.")
                         .c_str());
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}
}
