#include "nvidia_generators.h"

#include <dlfcn.h>

#include <algorithm>
#include <vector>

#include "handlers.h"
#include "libraries/curand/messages.h"
#include "libraries/curand/status.h"

namespace worker {
namespace {

using namespace maths::curand;

template <typename... Arguments>
CUresult invoke_named(void* library, const char* name, Arguments... arguments) {
    const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
    return function ? curand::result_of(function(arguments...)) : CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

// A generator of NVIDIA's, which itself knows where it stands: calls that use it come one at a time.
struct NvidiaGenerators::Made {
    explicit Made(void* library) : library(library) {}
    ~Made() {
        if (handle) invoke_named(library, "curandDestroyGenerator", handle);
    }
    Made(const Made&) = delete;
    Made& operator=(const Made&) = delete;

    // What the program has set since.
    CUresult set(const Generate& call);
    CUresult run(const Generate& call) const;

    void* const library;
    std::mutex mutex;
    void* handle = nullptr;
    Settings settings{};
    uint64_t offsets = 0;
};

CUresult NvidiaGenerators::Made::set(const Generate& call) {
    const Settings& wanted = call.settings;
    CUresult error = CUDA_SUCCESS;
    const auto change = [&](bool differs, const char* name, auto value) {
        if (!error && differs) error = invoke_named(library, name, handle, value);
    };
    const bool is_new = !handle;
    if (is_new) {
        error = invoke_named(library, "curandCreateGenerator", &handle, static_cast<int>(wanted.kind));
        if (error) handle = nullptr;
    } else if (wanted.kind != settings.kind) {
        return kMalformed;
    }
    const bool pseudo = !is_quasi(wanted.kind);
    change(is_new || wanted.ordering != settings.ordering, "curandSetGeneratorOrdering",
           static_cast<int>(wanted.ordering));
    const bool is_placed = is_new || call.offsets != offsets;
    const bool is_seeded = wanted.kind == kMt19937 ? is_placed : is_new || wanted.seed != settings.seed;
    change(pseudo && is_seeded, "curandSetPseudoRandomGeneratorSeed",
           static_cast<unsigned long long>(wanted.seed));
    change(!pseudo && (is_new || wanted.dimensions != settings.dimensions),
           "curandSetQuasiRandomGeneratorDimensions", static_cast<unsigned>(wanted.dimensions));
    change(wanted.kind != kMt19937 && is_placed, "curandSetGeneratorOffset",
           static_cast<unsigned long long>(wanted.offset));
    settings = wanted;
    offsets = call.offsets;
    return error;
}

CUresult NvidiaGenerators::Made::run(const Generate& call) const {
    const auto count = static_cast<size_t>(call.count);
    const auto plain = [&](const char* name) {
        return invoke_named(library, name, handle, reinterpret_cast<void*>(call.output), count);
    };
    const auto shaped = [&](const char* name, auto... values) {
        return invoke_named(library, name, handle, reinterpret_cast<void*>(call.output), count, values...);
    };
    const auto mean = static_cast<float>(call.first), deviation = static_cast<float>(call.second);
    switch (call.result) {
        case kBits:
            return plain("curandGenerate");
        case kLongBits:
            return plain("curandGenerateLongLong");
        case kUniform:
            return plain("curandGenerateUniform");
        case kUniformDouble:
            return plain("curandGenerateUniformDouble");
        case kNormal:
            return shaped("curandGenerateNormal", mean, deviation);
        case kNormalDouble:
            return shaped("curandGenerateNormalDouble", call.first, call.second);
        case kLogNormal:
            return shaped("curandGenerateLogNormal", mean, deviation);
        case kLogNormalDouble:
            return shaped("curandGenerateLogNormalDouble", call.first, call.second);
        case kPoisson:
            return shaped("curandGeneratePoisson", call.first);
        default:
            return CUDA_ERROR_INVALID_VALUE;
    }
}

NvidiaGenerators& NvidiaGenerators::get() {
    static auto* const all = new NvidiaGenerators;
    return *all;
}

// Null where the session has as many as it may.
std::shared_ptr<NvidiaGenerators::Made> NvidiaGenerators::generator_of(const Key& key, void* library) {
    const std::lock_guard lock(mutex_);
    const auto found = generators_.find(key);
    if (found != generators_.end()) return found->second;
    const auto its_own = [&](const auto& entry) { return std::get<0>(entry.first) == std::get<0>(key); };
    const auto count = static_cast<size_t>(std::ranges::count_if(generators_, its_own));
    return count < kMostGenerators ? generators_[key] = std::make_shared<Made>(library) : nullptr;
}

std::shared_ptr<NvidiaGenerators::Made> NvidiaGenerators::take(const Key& key) {
    const std::lock_guard lock(mutex_);
    const auto node = generators_.extract(key);
    return node ? node.mapped() : nullptr;
}

CUresult NvidiaGenerators::call(Context& context, void* library, CUstream stream, const GkLibraryCall& head,
                                const void* arguments) {
    // A twister's own state is the program's process' alone.
    const auto& call = *static_cast<const Generate*>(arguments);
    const Key key{&context.session(), context.device(), head.major, call.number};
    const auto made = generator_of(key, library);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    const std::lock_guard lock(made->mutex);
    CUresult result = made->set(call);
    if (!result) result = invoke_named(library, "curandSetStream", made->handle, stream);
    if (!result) return made->run(call);
    take(key);  // one that failed may be tried anew
    return result;
}

// What it works in must not go while its work runs.
CUresult NvidiaGenerators::end(Context& context, uint8_t major, uint64_t number) {
    const auto ended = take({&context.session(), context.device(), major, number});
    return ended ? context.session().own_work.wait(context.device()) : CUDA_SUCCESS;
}

void NvidiaGenerators::forget(const Session& session, uint8_t device) {
    std::vector<std::shared_ptr<Made>> ended;
    const std::lock_guard lock(mutex_);
    std::erase_if(generators_, [&](auto& entry) {
        const bool its_own = std::get<0>(entry.first) == &session && std::get<1>(entry.first) == device;
        if (its_own) ended.push_back(std::move(entry.second));
        return its_own;
    });
}

}  // namespace worker
