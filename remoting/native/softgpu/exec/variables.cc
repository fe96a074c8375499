#include "exec/variables.h"

#include <mutex>
#include <unordered_set>

namespace softgpu {
namespace {

struct Variables {
    std::mutex mutex;
    std::unordered_set<uint64_t> bases;
};

// Never destroyed: programs go on while the process exits.
Variables& variables() {
    static auto* const all = new Variables;
    return *all;
}

}  // namespace

void variable_placed(uint64_t base) {
    const std::lock_guard lock(variables().mutex);
    variables().bases.insert(base);
}

void variable_gone(uint64_t base) noexcept {
    const std::lock_guard lock(variables().mutex);
    variables().bases.erase(base);
}

bool is_variable(uint64_t base) noexcept {
    const std::lock_guard lock(variables().mutex);
    return variables().bases.contains(base);
}

}  // namespace softgpu
