#include "nvidia_generators.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "handlers.h"
#include "libraries/curand/messages.h"
#include "libraries/curand/status.h"
#include "nvidia_function.h"

namespace worker {
namespace {

using namespace maths::curand;

template <typename... Arguments>
CUresult invoke_named(void* library, const char* name, Arguments... arguments) {
    const auto function = reinterpret_cast<int (*)(Arguments...)>(function_of(library, name));
    return function ? curand::result_of(function(arguments...)) : CUDA_ERROR_NOT_SUPPORTED;
}

// What NVIDIA's library keeps on the GPU it tells nobody: charged are as many states as a generator has
// lanes, of the sizes that its device API documents, or direction vectors. It is never ended, so neither is
// its charge.
uint64_t bytes_kept(int64_t kind) {
    constexpr uint64_t kOfXorwow = 48, kOfMrg = 72, kOfPhilox = 64, kTwister = 2500, kTwisters = 8192,
                       kWord = 4, kLong = 8;
    switch (kind) {
        case kMrg32k3a:
            return 81920 * kOfMrg;
        case kMt19937:
            return kTwisters * kTwister;
        case kPhilox:
            return 65536 * kOfPhilox;
        case kSobol32:
            return kMostDimensions * 32 * kWord;
        case kSobol64:
            return kMostDimensions * 64 * kLong;
        default:
            return 4096 * kOfXorwow;
    }
}

constexpr const char* kLost =
    "the generator was made anew on this GPU, after an error or for a new slice, and no offset leads to "
    "where it stood in its sequence: set its offset, or MT19937's seed";

}  // namespace

// A generator of NVIDIA's, which itself knows where it stands: calls that use it come one at a time.
struct NvidiaGenerators::Made {
    Made(void* library, uint8_t device, uint8_t major) : library(library), device(device), major(major) {}
    ~Made() {
        if (handle) get().keep({device, major, settings.kind}, handle);
    }
    Made(const Made&) = delete;
    Made& operator=(const Made&) = delete;

    // What the program has set since, and where it stands in its sequence. NOT_SUPPORTED where no offset
    // leads there.
    CUresult set(Context& context, const Generate& call);
    CUresult create(Context& context, int64_t kind);
    CUresult run(const Generate& call) const;

    void* const library;
    const uint8_t device, major;
    std::mutex mutex;
    void* handle = nullptr;
    Settings settings{};
    uint64_t offsets = 0;
    // Where it stands. Unknown of one that is new, or whose last call failed: all is set anew then.
    std::optional<Position> position;
};

CUresult NvidiaGenerators::Made::create(Context& context, int64_t kind) {
    Worker& worker = context.worker();
    const uint64_t charge = MemoryLedger::charge_of(bytes_kept(kind));
    if (!worker.room.take(context.session(), device, charge)) {
        return refused(CUDA_ERROR_OUT_OF_MEMORY, "this generator keeps " + mib(charge) +
                                                     " on the GPU, and so much of the slice is not "
                                                     "free: free memory, or take a larger slice");
    }
    const CUresult error = invoke_named(library, "curandCreateGenerator", &handle, static_cast<int>(kind));
    if (!error) return CUDA_SUCCESS;
    worker.memory.give_back(device, charge);
    return handle = nullptr, error;
}

CUresult NvidiaGenerators::Made::set(Context& context, const Generate& call) {
    const Settings& wanted = call.settings;
    CUresult error = CUDA_SUCCESS;
    const auto change = [&](bool differs, const char* name, auto value) {
        if (!error && differs) error = invoke_named(library, name, handle, value);
    };
    const bool is_new = !position;
    if (handle && wanted.kind != settings.kind) return kMalformed;
    const bool is_placed =
        is_new || call.offsets != offsets || call.position != aligned(wanted, *position, call.result);
    const std::optional<uint64_t> offset = offset_of(wanted, call.position);
    if (is_placed && !offset) return refused(CUDA_ERROR_NOT_SUPPORTED, kLost);
    if (!handle) handle = get().take_idle({device, major, wanted.kind});
    if (!handle && (error = create(context, wanted.kind))) return error;
    const bool pseudo = !is_quasi(wanted.kind);
    change(is_new || wanted.ordering != settings.ordering, "curandSetGeneratorOrdering",
           static_cast<int>(wanted.ordering));
    const bool is_seeded = wanted.kind == kMt19937 ? is_placed : is_new || wanted.seed != settings.seed;
    change(pseudo && is_seeded, "curandSetPseudoRandomGeneratorSeed",
           static_cast<unsigned long long>(wanted.seed));
    change(!pseudo && (is_new || wanted.dimensions != settings.dimensions),
           "curandSetQuasiRandomGeneratorDimensions", static_cast<unsigned>(wanted.dimensions));
    change(wanted.kind != kMt19937 && is_placed, "curandSetGeneratorOffset",
           static_cast<unsigned long long>(offset.value_or(0)));
    settings = wanted;
    offsets = call.offsets;
    position.reset();
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
    if (count >= kMostGenerators) {
        note_refusal(
            "a session has " + std::to_string(kMostGenerators) +
            " generators on the GPU at most, and has them: destroy generators that you no longer need");
        return nullptr;
    }
    return generators_[key] = std::make_shared<Made>(library, std::get<1>(key), std::get<2>(key));
}

void* NvidiaGenerators::take_idle(const Kind& kind) {
    const std::lock_guard lock(mutex_);
    std::vector<void*>& idle = idle_[kind];
    if (idle.empty()) return nullptr;
    void* const handle = idle.back();
    idle.pop_back();
    return handle;
}

void NvidiaGenerators::keep(const Kind& kind, void* handle) {
    const std::lock_guard lock(mutex_);
    idle_[kind].push_back(handle);
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
    CUresult result = made->set(context, call);
    if (!result) result = invoke_named(library, "curandSetStream", made->handle, stream);
    if (!result) result = made->run(call);
    if (!result) made->position = behind(call.settings, call.position, call.result, call.count);
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
