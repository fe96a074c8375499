// The contexts of this process and what they own.
#include "context.h"

#include <algorithm>
#include <vector>

#include "array.h"
#include "call.h"
#include "calls_wire.h"
#include "library.h"
#include "memory_map.h"
#include "session.h"
#include "shared_memory.h"
#include "slice_file.h"
#include "stream_event.h"
#include "texture.h"
#include "thread.h"

namespace client {
namespace {

HandleTable<Context>& contexts() {
    static auto* table = new HandleTable<Context>(wire::HandleKind::context);
    return *table;
}

uint64_t next_id() {
    static uint64_t last = 0;
    return __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
}

uint64_t id_of(const Context& context) {
    return context.id.load(std::memory_order_acquire);
}

Context* living(uint64_t handle) {
    Context* context = contexts().find(handle);
    return context && id_of(*context) ? context : nullptr;
}

void begin_life(Context& context) {
    context.limits_set = 0;
    context.cache_config = CU_FUNC_CACHE_PREFER_NONE;
    context.id.store(next_id(), std::memory_order_release);
}

// The lives of a device's primary context.
struct PrimaryLives {
    bool again = false;                // it has lived before, in this life of the process
    std::atomic<bool> carried{false};  // it was used in an earlier one, and not yet in this
};
PrimaryLives primary_lives[wire::kMaxDevices];

bool any_context_lives() {
    const std::vector<uint64_t> all = contexts().all();
    return std::any_of(all.begin(), all.end(), [](uint64_t handle) { return living(handle) != nullptr; });
}

// What ends with a context: handles, and addresses of allocations.
std::vector<uint64_t> take_owned(uint64_t id) {
    std::vector<uint64_t> owned;
    auto take = [&owned](const std::vector<uint64_t>& some) {
        owned.insert(owned.end(), some.begin(), some.end());
    };
    take(take_streams_and_events(id));
    take(take_modules(id));
    take(take_arrays(id));
    for (const Memory& memory : MemoryMap::get().take_of_context(id)) {
        SharedMemory::get().forget(memory.base);
        SliceFile::get().unmap(memory.base);
        owned.push_back(memory.device_address);
    }
    return owned;
}

// The worker waits for this session's work first, because what runs may use what is freed.
CUresult give_back(Call& call, const std::vector<uint64_t>& owned) {
    constexpr size_t kAtOnce = wire::kChunk / sizeof(uint64_t);
    for (size_t sent = 0; sent < owned.size(); sent += kAtOnce) {
        const size_t count = std::min(kAtOnce, owned.size() - sent);
        const CUresult error =
            call.post(wire::kOpEndContext, 0, owned.data() + sent, count * sizeof(uint64_t));
        if (error != CUDA_SUCCESS) return error;
    }
    return CUDA_SUCCESS;
}

// Before the arrays that they name.
CUresult give_back(Call& call, const std::vector<wire::TextureEnd>& textures) {
    for (const wire::TextureEnd& texture : textures) {
        if (CUresult error = call.post(wire::kOpEndTexture, 0, &texture, sizeof texture)) return error;
    }
    return CUDA_SUCCESS;
}

// The others of the device keep what they have set.
CUresult give_back_limits(Call& call, const Context& context, uint32_t set) {
    for (uint32_t i = 0; i < wire::kDeviceLimits; ++i) {
        const auto limit = static_cast<CUlimit>(i);
        if (!(set >> i & 1) || !takes_memory(limit)) continue;
        const wire::cuCtxSetLimit_message message{i, most_needed(context, limit)};
        if (CUresult error = call.ask(wire::kOp_cuCtxSetLimit, 0, &message, sizeof message, nullptr, 0))
            return error;
    }
    return CUDA_SUCCESS;
}

}  // namespace

uint64_t add_context(uint8_t device, unsigned flags, unsigned api_version) {
    return contexts().add([&](Context& context, uint64_t handle) {
        context.handle = handle;
        context.device = device;
        context.flags = flags;
        context.api_version = api_version;
        begin_life(context);
    });
}

Context& primary_context(uint8_t device) {
    static Context* const* const all = [] {
        auto** made = new Context*[wire::kMaxDevices];
        for (uint32_t i = 0; i < wire::kMaxDevices; ++i) {
            made[i] = contexts().find(contexts().add([&](Context& context, uint64_t handle) {
                context.handle = handle;
                context.device = static_cast<CUdevice>(i);
                context.primary = true;
            }));
        }
        return made;
    }();
    return *all[device];
}

// On the server libraries are one for all contexts: while another one lives, their variables keep their
// values.
CUresult begin_primary_context(uint8_t device, unsigned flags) {
    static bool told;
    PrimaryLives& lives = primary_lives[device];
    if (lives.again && any_context_lives()) {
        gk_unsupported_once("giving a library's variables their first values while other contexts live",
                            &told);
    } else if (lives.again) {
        if (CUresult error = reset_libraries(device)) return error;
    }
    lives.again = true;
    lives.carried = false;
    primary_context(device).flags = flags;
    begin_life(primary_context(device));
    return CUDA_SUCCESS;
}

std::optional<uint8_t> primary_to_begin_again(CUcontext handle) {
    const Context* context = contexts().find(reinterpret_cast<uint64_t>(handle));
    if (!context || !context->primary || !primary_lives[context->device].carried) return std::nullopt;
    return static_cast<uint8_t>(context->device);
}

void forget_contexts() {
    for (const uint64_t handle : contexts().all()) {
        Context* context = contexts().find(handle);
        if (!context) continue;
        context->id.store(0, std::memory_order_release);
        if (!context->primary) contexts().remove(handle);
    }
    for (PrimaryLives& lives : primary_lives) {
        lives.carried = lives.carried || lives.again;
        lives.again = false;
    }
}

CUresult end_life(Context& context) {
    const CUdevice device = context.device;
    const uint64_t id = context.id.exchange(0, std::memory_order_acq_rel);
    if (id == 0) return CUDA_ERROR_CONTEXT_IS_DESTROYED;  // another thread was first
    if (!context.primary) contexts().remove(context.handle);
    const std::vector<wire::TextureEnd> textures = take_textures(id);
    const std::vector<uint64_t> owned = take_owned(id);
    const uint32_t limits = context.limits_set.load(std::memory_order_acquire);
    // A session that is lost, or whose context has died, has nothing to give back.
    if (Session::get().error() || (owned.empty() && textures.empty() && limits == 0)) return CUDA_SUCCESS;
    Call call;
    if (CUresult error = call.begin_on(static_cast<uint8_t>(device))) return error;
    CUresult result = give_back(call, textures);
    if (result == CUDA_SUCCESS) result = give_back(call, owned);
    return result == CUDA_SUCCESS ? give_back_limits(call, context, limits) : result;
}

Context* context_of(CUcontext handle) {
    return living(reinterpret_cast<uint64_t>(handle));
}

CUresult find_current(Context*& context) {
    const auto& stack = Thread::current().contexts;
    if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    context = living(stack.back());
    return context ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

Context* current_context() {
    Context* context = nullptr;
    return find_current(context) == CUDA_SUCCESS ? context : nullptr;
}

CUresult find_context(CUcontext handle, Context*& context) {
    if (!Session::get().initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    if (!handle) return find_current(context);
    context = context_of(handle);
    return context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

Context* context_with(uint64_t id) {
    for (const uint64_t handle : contexts().all()) {
        Context* context = living(handle);
        if (context && id_of(*context) == id) return context;
    }
    return nullptr;
}

uint64_t current_context_id() {
    const Context* context = current_context();
    return context ? id_of(*context) : 0;
}

uint64_t most_needed(const Context& besides, CUlimit limit) {
    uint64_t most = 0;
    for (const uint64_t handle : contexts().all()) {
        const Context* other = living(handle);
        if (!other || other == &besides || other->device != besides.device) continue;
        if (other->limits_set.load(std::memory_order_acquire) >> limit & 1)
            most = std::max(most, other->limits[limit].load(std::memory_order_relaxed));
    }
    return most;
}

AsCurrent::AsCurrent(const Context& context) {
    Thread::current().contexts.push_back(context.handle);
}
AsCurrent::~AsCurrent() {
    Thread::current().contexts.pop_back();
}

CUresult check_device(CUdevice device) {
    if (!Session::get().initialised()) return CUDA_ERROR_NOT_INITIALIZED;
    if (CUresult error = Session::get().go_on()) return error;
    const auto count = static_cast<CUdevice>(Session::get().devices().size());
    return device >= 0 && device < count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult check_device_to_leave(CUdevice device) {
    if (Session::get().error() != CUDA_ERROR_CONTEXT_IS_DESTROYED) return check_device(device);
    const bool possible = device >= 0 && device < static_cast<CUdevice>(wire::kMaxDevices);
    return possible ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

}  // namespace client
