#include "nvidia_function.h"

#include <dlfcn.h>

#include <utility>

namespace worker {
namespace {

thread_local std::string missing;

}  // namespace

void* function_of(void* library, const std::string& name) {
    void* const function = dlsym(library, name.c_str());
    if (!function && missing.empty()) missing = name;
    return function;
}

std::string take_missing_function() {
    return std::exchange(missing, {});
}

}  // namespace worker
