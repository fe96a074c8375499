#include "pool.h"

#include <mutex>

#include "call.h"
#include "calls_wire.h"
#include "front/platform.h"
#include "session.h"

namespace client {
namespace {

HandleTable<Pool>& pools() {
    static auto* table = new HandleTable<Pool>(wire::HandleKind::pool);
    return *table;
}

// A device's default pool has a handle as others have, and keeps it from one life to the next; on the wire it
// is its device's number in the lease.
struct Defaults {
    std::mutex mutex;
    std::atomic<uint64_t> handle[wire::kMaxDevices]{};   // 0: not asked for yet
    std::atomic<uint64_t> current[wire::kMaxDevices]{};  // 0: the default one
};

Defaults& defaults() {
    static auto* all = new Defaults;
    return *all;
}

}  // namespace

Pool* pool_of(CUmemoryPool handle, uint64_t& wire) {
    wire = reinterpret_cast<uint64_t>(handle);
    Pool* pool = pools().find(wire);
    if (!pool || !pool->is_default) return pool;
    if (pool->device >= Session::get().devices().size()) return nullptr;
    wire = Session::get().number_in_lease(pool->device);
    return pool;
}

CUmemoryPool default_pool(uint8_t device) {
    std::atomic<uint64_t>& handle = defaults().handle[device];
    if (!handle.load(std::memory_order_acquire)) {
        const std::lock_guard lock(defaults().mutex);
        if (!handle.load()) handle = pools().add([&](Pool& pool, uint64_t) { pool = {device, 0, 0, true}; });
    }
    return reinterpret_cast<CUmemoryPool>(handle.load());
}

void forget_pools() {
    for (const uint64_t handle : pools().all()) {
        Pool& pool = *pools().find(handle);
        pool.accessible_from = 0;
        if (!pool.is_default) pools().remove(handle);
    }
    for (std::atomic<uint64_t>& current : defaults().current) current = 0;
}

CUmemoryPool current_pool(uint8_t device) {
    const uint64_t chosen = defaults().current[device].load();
    return chosen ? reinterpret_cast<CUmemoryPool>(chosen) : default_pool(device);
}

}  // namespace client

namespace front::platform {

using namespace client;

Pool pool(CUmemoryPool handle) {
    uint64_t wire;
    const client::Pool* known = pool_of(handle, wire);
    if (!known) check(Session::get().error());  // between two lives none is known
    require(known != nullptr);
    return {.device = known->device,
            .max_bytes = known->max_bytes,
            .accessible_from = __atomic_load_n(&known->accessible_from, __ATOMIC_SEQ_CST),
            .is_default = known->is_default};
}

CUmemoryPool make_pool(CUdevice device, uint64_t max_bytes) {
    Call call;
    check(call.begin_anew());
    const auto its = static_cast<uint8_t>(device);
    const uint64_t handle =
        pools().add([&](client::Pool& fresh, uint64_t) { fresh = {its, max_bytes, 0, false}; });
    require(handle != 0, CUDA_ERROR_OUT_OF_MEMORY);
    const wire::PoolHead message{handle, max_bytes, Session::get().number_in_lease(its), 0};
    if (CUresult error = call.ask(wire::kOpCreatePool, 0, &message, sizeof message, nullptr, 0)) {
        pools().remove(handle);
        refuse(error);
    }
    return reinterpret_cast<CUmemoryPool>(handle);
}

void end_pool(CUmemoryPool pool) {
    Call call;
    check(call.begin_without_context());
    const auto handle = reinterpret_cast<uint64_t>(pool);
    require(pools().remove(handle));
    for (auto& current : defaults().current) {
        uint64_t expected = handle;
        current.compare_exchange_strong(expected, 0);
    }
    const wire::cuMemPoolDestroy_message message{handle};
    check(call.post(wire::kOp_cuMemPoolDestroy, 0, &message, sizeof message));
}

CUmemoryPool default_pool(CUdevice device) {
    return client::default_pool(static_cast<uint8_t>(device));
}

CUmemoryPool current_pool(CUdevice device) {
    return client::current_pool(static_cast<uint8_t>(device));
}

void set_current_pool(CUdevice device, CUmemoryPool pool) {
    defaults().current[device] = reinterpret_cast<uint64_t>(pool);
}

uint64_t pool_attribute(CUmemoryPool pool, CUmemPool_attribute attribute) {
    Call call;
    check(call.begin_without_context());
    wire::cuMemPoolGetAttribute_message message{0, attribute, 0};
    require(call.pool(pool, message.pool));
    uint64_t answer = 0;
    check(call.ask(wire::kOp_cuMemPoolGetAttribute, 0, &message, sizeof message, &answer, sizeof answer));
    return answer;
}

void set_pool_attribute(CUmemoryPool pool, CUmemPool_attribute attribute, uint64_t value) {
    Call call;
    check(call.begin_without_context());
    wire::cuMemPoolSetAttribute_message message{0, attribute, value};
    require(call.pool(pool, message.pool));
    check(call.post(wire::kOp_cuMemPoolSetAttribute, 0, &message, sizeof message));
}

void trim_pool(CUmemoryPool pool, uint64_t bytes_to_keep) {
    Call call;
    check(call.begin_without_context());
    wire::cuMemPoolTrimTo_message message{0, bytes_to_keep};
    require(call.pool(pool, message.pool));
    check(call.post(wire::kOp_cuMemPoolTrimTo, 0, &message, sizeof message));
}

void set_pool_access(CUmemoryPool pool, CUdevice device, bool granted) {
    Call call;
    check(call.begin_without_context());
    wire::AccessHead message{};
    client::Pool* known = pool_of(pool, message.target);
    require(known != nullptr);
    message.device = Session::get().number_in_lease(static_cast<uint8_t>(device));
    message.flags = granted ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    check(call.ask(wire::kOpSetPoolAccess, 0, &message, sizeof message, nullptr, 0));
    if (granted) {
        __atomic_fetch_or(&known->accessible_from, 1u << device, __ATOMIC_SEQ_CST);
    } else {
        __atomic_fetch_and(&known->accessible_from, ~(1u << device), __ATOMIC_SEQ_CST);
    }
}

}  // namespace front::platform
