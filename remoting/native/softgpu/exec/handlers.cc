#include "exec/handlers.h"

#include <array>
#include <cstdlib>
#include <unordered_map>
#include <unordered_set>

#include "exec/gang.h"

#define SOFTGPU_TABLES(ISA)                                                                                  \
    namespace ISA {                                                                                          \
    extern const HandlerTable kIntegerHandlers, kFloatHandlers, kCompareHandlers, kApproximateHandlers,      \
        kConvertHandlers, kHalfHandlers, kMemoryHandlers, kAtomicHandlers, kExchangeHandlers,                \
        kMatrixHandlers, kTensorHandlers;                                                                    \
    constexpr const HandlerTable* kTables[] = {&kIntegerHandlers,     &kFloatHandlers,   &kCompareHandlers,  \
                                               &kApproximateHandlers, &kConvertHandlers, &kHalfHandlers,     \
                                               &kMemoryHandlers,      &kAtomicHandlers,  &kExchangeHandlers, \
                                               &kMatrixHandlers,      &kTensorHandlers};                     \
    }

namespace softgpu {

// A build has all instruction sets of the architecture unless it was told otherwise.
#if defined(SOFTGPU_HAS_v2)
SOFTGPU_TABLES(v2)
constexpr bool kHasV2 = true;
#else
constexpr bool kHasV2 = false;
#endif
#if defined(SOFTGPU_HAS_v3)
SOFTGPU_TABLES(v3)
constexpr bool kHasV3 = true;
#else
constexpr bool kHasV3 = false;
#endif
#if defined(SOFTGPU_HAS_v4)
SOFTGPU_TABLES(v4)
constexpr bool kHasV4 = true;
#else
constexpr bool kHasV4 = false;
#endif
#if defined(SOFTGPU_HAS_generic)
SOFTGPU_TABLES(generic)
#endif

namespace portable {
extern const HandlerTable kNarrowHandlers, kPairsHandlers, kSurfaceHandlers, kTextureHandlers, kVideoHandlers,
    kWideHandlers;
}

namespace {

struct Tables {
    std::array<Handler, kCodes> by_code{};
    std::vector<std::string_view> without_code;
    std::unordered_map<Handler, GangHandler> gangs;
    std::unordered_set<Handler> pure;
};

template <size_t count>
Tables gather(const HandlerTable* const (&tables)[count]) {
    Tables all;
    auto add = [&all](const HandlerTable& table) {
        for (size_t i = 0; i < table.count; ++i) {
            const HandlerEntry& entry = table.entries[i];
            const Code code = code_named(entry.name);
            if (code == kNoCode)
                all.without_code.emplace_back(entry.name);
            else
                all.by_code[size_t(code)] = entry.fn.one;
            if (entry.fn.gang != nullptr) all.gangs.emplace(entry.fn.one, entry.fn.gang);
            if (entry.fn.pure) all.pure.insert(entry.fn.one);
        }
    };
    for (const HandlerTable* table : tables) add(*table);
    for (const HandlerTable* table :
         {&portable::kNarrowHandlers, &portable::kPairsHandlers, &portable::kSurfaceHandlers,
          &portable::kTextureHandlers, &portable::kVideoHandlers, &portable::kWideHandlers, &kControlHandlers,
          &kCheckHandlers})
        add(*table);
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
    if (kHasV4 && allow_v4 && v4) return Isa::v4;
    if (kHasV3 && allow_v3 && v3) return Isa::v3;
    if (kHasV2 && v2) return Isa::v2;
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
#if defined(SOFTGPU_HAS_v2)
        case Isa::v2:
            return gather(v2::kTables);
#endif
#if defined(SOFTGPU_HAS_v3)
        case Isa::v3:
            return gather(v3::kTables);
#endif
#if defined(SOFTGPU_HAS_v4)
        case Isa::v4:
            return gather(v4::kTables);
#endif
#if defined(SOFTGPU_HAS_generic)
        case Isa::generic:
            return gather(generic::kTables);
#endif
        default:
            return {};
    }
}

const Tables& tables() {
    static const Tables* all = new Tables(build());  // immortal: used until the process is gone
    return *all;
}

}  // namespace

Handler find_handler(Code code) {
    return code == kNoCode ? nullptr : tables().by_code[size_t(code)];
}

std::vector<std::string_view> handlers_without_code() {
    return tables().without_code;
}

GangHandler find_gang_handler(Handler one) {
    const auto found = tables().gangs.find(one);
    return found == tables().gangs.end() ? each_warp : found->second;
}

bool is_pure(Handler one) {
    return tables().pure.contains(one);
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
