#include "nvidia_function.h"

#include <dlfcn.h>

namespace worker {
namespace {

thread_local std::string missing, reason;

}  // namespace

void* function_of(void* library, const std::string& name) {
    void* const function = dlsym(library, name.c_str());
    if (!function && missing.empty()) missing = name;
    return function;
}

std::string take_missing_function() {
    return std::exchange(missing, {});
}

void note_refusal(std::string why) {
    if (reason.empty()) reason = std::move(why);
}

std::string take_refusal() {
    return std::exchange(reason, {});
}

}  // namespace worker
