// cuRAND's functions: generators are made and set here, and their numbers asked for.
#include <atomic>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "curand/generators.h"
#include "curand/sobol.h"
#include "roles.h"

using namespace curand;
using maths::Fit;
using maths::curand::Settings;

namespace {

namespace numbers = maths::curand;

constexpr int kPseudoDefault = 100, kQuasiDefault = 200;

Settings default_settings(int kind) {
    int64_t own = kind;
    if (kind == kPseudoDefault) own = numbers::kXorwow;
    if (kind == kQuasiDefault) own = numbers::kSobol32;
    return {own, numbers::is_quasi(own) ? numbers::kQuasi : numbers::kDefault, 0, 0, 1};
}

Status create(void** handle, int kind, bool on_host) {
    if (!handle) return kOutOfRange;
    const Settings settings = default_settings(kind);
    switch (numbers::settings_fit(settings)) {
        case Fit::invalid:
            return kTypeError;
        case Fit::unsupported:
            return static_cast<Status>(library_unsupported(kind == numbers::kMtgp32
                                                               ? "curandCreateGenerator of MTGP32"
                                                               : "curandCreateGenerator of scrambled Sobol"));
        default:
            break;
    }
    if (!on_host) {
        if (const Status status = look()) return status;
    }
    void* const made = generators().add();
    if (!made) return kAllocationFailed;
    static std::atomic<uint64_t> last{0};
    const auto own = generators().find(made);
    own->on_host = on_host;
    own->number = ++last;
    change_to(*own, settings);
    begin_at_offset(*own);
    *handle = made;
    return kSuccess;
}

// Changes one setting; `change` says why not.
template <typename Change>
Status set(void* handle, Change change) {
    const auto own = generators().find(handle);
    if (!own) return kNotInitialized;
    const std::lock_guard lock(own->mutex);
    Settings changed = own->settings;
    if (const Status status = change(changed)) return status;
    if (numbers::settings_fit(changed) != Fit::fits) return kOutOfRange;
    change_to(*own, changed);
    return kSuccess;
}

Status generate(void* handle, int64_t result, void* output, size_t count, double first = 0,
                double second = 0) {
    const auto own = generators().find(handle);
    if (!own) return kNotInitialized;
    const std::lock_guard lock(own->mutex);
    try {
        return generate(*own, result, output, count, first, second);
    } catch (const std::bad_alloc&) {
        return kAllocationFailed;
    }
}

// The vectors of all dimensions, as long as the process lives.
template <typename Word>
Status directions(numbers::Directions<Word>** vectors, int set, int wanted) {
    if (!vectors || set != wanted) return kOutOfRange;
    static std::once_flag once;
    static numbers::Directions<Word>* all = nullptr;
    try {
        std::call_once(once, [] {
            auto made = std::make_unique<numbers::Directions<Word>[]>(numbers::kMostDimensions);
            for (size_t i = 0; i < numbers::kMostDimensions; ++i) made[i] = numbers::directions_of<Word>(i);
            all = made.release();
        });
    } catch (const std::bad_alloc&) {
        return kAllocationFailed;
    }
    *vectors = all;
    return kSuccess;
}

}  // namespace

CURAND_EXPORT Status curandCreateGenerator(void** handle, int kind) {
    return create(handle, kind, false);
}

CURAND_EXPORT Status curandCreateGeneratorHost(void** handle, int kind) {
    return create(handle, kind, true);
}

CURAND_EXPORT Status curandDestroyGenerator(void* handle) {
    const auto own = generators().find(handle);
    if (!own || !generators().remove(handle)) return kNotInitialized;
    const std::lock_guard lock(own->mutex);
    end(*own);
    return kSuccess;
}

CURAND_EXPORT Status curandSetStream(void* handle, CUstream stream) {
    const auto own = generators().find(handle);
    if (!own) return kNotInitialized;
    const std::lock_guard lock(own->mutex);
    own->stream = stream;
    return kSuccess;
}

CURAND_EXPORT Status curandSetPseudoRandomGeneratorSeed(void* handle, unsigned long long seed) {
    const auto own = generators().find(handle);
    if (!own) return kNotInitialized;
    const std::lock_guard lock(own->mutex);
    if (numbers::is_quasi(own->settings.kind)) return kTypeError;
    own->settings.seed = seed;
    // A twister goes nowhere but to the beginning of a seed, its present one's too.
    if (own->settings.kind == numbers::kMt19937) begin_at_offset(*own);
    return kSuccess;
}

CURAND_EXPORT Status curandSetGeneratorOffset(void* handle, unsigned long long offset) {
    const auto own = generators().find(handle);
    if (!own) return kNotInitialized;
    const std::lock_guard lock(own->mutex);
    if (own->settings.kind == numbers::kMt19937) return kTypeError;
    own->settings.offset = offset;
    begin_at_offset(*own);
    return kSuccess;
}

CURAND_EXPORT Status curandSetGeneratorOrdering(void* handle, int ordering) {
    const auto own = generators().find(handle);
    // Of numbers that a GPU chooses the order of there are none on the host.
    if (own && own->on_host && ordering == numbers::kDynamic) return kOutOfRange;
    return set(handle, [ordering](Settings& settings) {
        settings.ordering = ordering;
        return kSuccess;
    });
}

CURAND_EXPORT Status curandSetQuasiRandomGeneratorDimensions(void* handle, unsigned int dimensions) {
    return set(handle, [dimensions](Settings& settings) {
        if (!numbers::is_quasi(settings.kind)) return kTypeError;
        settings.dimensions = dimensions;
        return kSuccess;
    });
}

// There is nothing to prepare: a generator is made at its first call.
CURAND_EXPORT Status curandGenerateSeeds(void* handle) {
    return generators().find(handle) ? kSuccess : kNotInitialized;
}

CURAND_EXPORT Status curandGenerate(void* handle, unsigned int* output, size_t count) {
    return generate(handle, numbers::kBits, output, count);
}

CURAND_EXPORT Status curandGenerateLongLong(void* handle, unsigned long long* output, size_t count) {
    return generate(handle, numbers::kLongBits, output, count);
}

CURAND_EXPORT Status curandGenerateUniform(void* handle, float* output, size_t count) {
    return generate(handle, numbers::kUniform, output, count);
}

CURAND_EXPORT Status curandGenerateUniformDouble(void* handle, double* output, size_t count) {
    return generate(handle, numbers::kUniformDouble, output, count);
}

CURAND_EXPORT Status curandGenerateNormal(void* handle, float* output, size_t count, float mean,
                                          float deviation) {
    return generate(handle, numbers::kNormal, output, count, mean, deviation);
}

CURAND_EXPORT Status curandGenerateNormalDouble(void* handle, double* output, size_t count, double mean,
                                                double deviation) {
    return generate(handle, numbers::kNormalDouble, output, count, mean, deviation);
}

CURAND_EXPORT Status curandGenerateLogNormal(void* handle, float* output, size_t count, float mean,
                                             float deviation) {
    return generate(handle, numbers::kLogNormal, output, count, mean, deviation);
}

CURAND_EXPORT Status curandGenerateLogNormalDouble(void* handle, double* output, size_t count, double mean,
                                                   double deviation) {
    return generate(handle, numbers::kLogNormalDouble, output, count, mean, deviation);
}

CURAND_EXPORT Status curandGeneratePoisson(void* handle, unsigned int* output, size_t count, double lambda) {
    return generate(handle, numbers::kPoisson, output, count, lambda);
}

CURAND_EXPORT Status curandGetDirectionVectors32(numbers::Directions<uint32_t>** vectors, int set) {
    constexpr int kJoeKuo = 101, kScrambled = 102;
    if (set == kScrambled) return static_cast<Status>(library_unsupported("scrambled direction vectors"));
    return directions(vectors, set, kJoeKuo);
}

CURAND_EXPORT Status curandGetDirectionVectors64(numbers::Directions<uint64_t>** vectors, int set) {
    constexpr int kJoeKuo = 103, kScrambled = 104;
    if (set == kScrambled) return static_cast<Status>(library_unsupported("scrambled direction vectors"));
    return directions(vectors, set, kJoeKuo);
}
