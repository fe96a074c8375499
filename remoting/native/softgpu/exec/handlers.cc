#include "exec/handlers.h"

#include <cstdlib>
#include <unordered_map>

#define SOFTGPU_TABLES(ISA)                                                                               \
    namespace ISA {                                                                                       \
    extern const HandlerTable kIntegerHandlers, kFloatHandlers, kCompareHandlers, kApproximateHandlers,   \
        kConvertHandlers, kHalfHandlers, kMemoryHandlers, kAtomicHandlers, kExchangeHandlers,             \
        kMatrixHandlers;                                                                                  \
    constexpr const HandlerTable* kTables[] = {                                                           \
        &kIntegerHandlers, &kFloatHandlers,  &kCompareHandlers, &kApproximateHandlers, &kConvertHandlers, \
        &kHalfHandlers,    &kMemoryHandlers, &kAtomicHandlers,  &kExchangeHandlers,    &kMatrixHandlers}; \
    }

namespace softgpu {

#if defined(__x86_64__)
SOFTGPU_TABLES(v2)
SOFTGPU_TABLES(v3)
SOFTGPU_TABLES(v4)
#else
SOFTGPU_TABLES(generic)
#endif

namespace {

using Tables = std::unordered_map<std::string, Handler>;

template <size_t count>
Tables gather(const HandlerTable* const (&tables)[count]) {
    Tables all;
    auto add = [&all](const HandlerTable& table) {
        for (size_t i = 0; i < table.count; ++i) all.emplace(table.entries[i].name, table.entries[i].fn);
    };
    for (const HandlerTable* table : tables) add(*table);
    add(kControlHandlers);
    return all;
}

// GPU_KERNELS_SOFTGPU_ISA in the environment picks a lower instruction set than the machine's; the tests run
// them all so.
enum class Isa { none, v2, v3, v4, generic };
Isa choose() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    const char* wish = getenv("GPU_KERNELS_SOFTGPU_ISA");
    const std::string limit = wish == nullptr ? "x86-64-v4" : wish;
    const bool allow_v4 = limit == "x86-64-v4", allow_v3 = allow_v4 || limit == "x86-64-v3";
    // By features, not as "x86-64-v4": older compilers do not know the levels' names.
    const bool v2 = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("popcnt");
    const bool v3 = v2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi2");
    const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512vl");
    if (allow_v4 && v4) return Isa::v4;
    if (allow_v3 && v3) return Isa::v3;
    if (v2) return Isa::v2;
    return Isa::none;
#else
    return Isa::generic;
#endif
}

Isa chosen() {
    static const Isa isa = choose();
    return isa;
}

Tables build() {
    switch (chosen()) {
#if defined(__x86_64__)
        case Isa::v2:
            return gather(v2::kTables);
        case Isa::v3:
            return gather(v3::kTables);
        case Isa::v4:
            return gather(v4::kTables);
#else
        case Isa::generic:
            return gather(generic::kTables);
#endif
        default:
            return {};
    }
}

}  // namespace

Handler find_handler(const std::string& name) {
    static const Tables* tables = new Tables(build());  // immortal: used until the process is gone
    const auto found = tables->find(name);
    return found == tables->end() ? nullptr : found->second;
}

const char* instruction_set() {
    switch (chosen()) {
        case Isa::v2:
            return "x86-64-v2";
        case Isa::v3:
            return "x86-64-v3";
        case Isa::v4:
            return "x86-64-v4";
        case Isa::generic:
            return "generic";
        default:
            return nullptr;
    }
}

std::string_view executor_name() noexcept {
    const char* name = instruction_set();
    return name == nullptr ? "none" : name;
}

}  // namespace softgpu
