// Copies. What goes in is posted: the bytes have left the program's memory when the call returns. What comes
// back is waited for by the call itself, in the order of its stream, but for an asynchronous copy to pinned
// memory (copies_back.h).
#include "copy.h"

#include <cstring>

#include "box.h"
#include "call.h"
#include "calls_wire.h"
#include "capture.h"
#include "context.h"
#include "copies_back.h"
#include "graph_replay.h"
#include "host_calls.h"
#include "memory_map.h"
#include "shared_memory.h"

namespace client {
namespace {

struct End {
    wire::Box box;
    bool on_device;
    bool in_place = false;
    bool pinned = false;
};

// Memory that host and device share is copied from and to on the device, whose side is the newer one once
// it has been sent. Device memory is all known here, so a wrong address is found out at once;
// the worker checks it again.
CUresult resolve(const cuda::CopyEnd& end, const cuda::CopyRequest& request, End& resolved) {
    resolved.box = {end.start, end.pitch, end.rows, request.width, request.height, request.depth};
    if (end.type == CU_MEMORYTYPE_ARRAY) {
        resolved.box.array = reinterpret_cast<uint64_t>(end.array);
        resolved.on_device = true;
        return CUDA_SUCCESS;
    }
    const auto memory = MemoryMap::get().find(end.start);
    if (!memory) {
        resolved.on_device = false;
        return end.type == CU_MEMORYTYPE_DEVICE ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    }
    const uint64_t span = wire::span(resolved.box);
    resolved.in_place = memory->in_place;
    resolved.on_device = memory->kind != Memory::Kind::pinned;
    if (resolved.on_device) {
        return MemoryMap::get().on_device(end.start, span) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    const uint64_t offset = end.start - memory->base;
    const bool within = span <= memory->bytes - offset;
    resolved.pinned = within && memory->device_address == 0;
    if (memory->device_address == 0 || !within) return CUDA_SUCCESS;
    resolved.on_device = true;
    resolved.box.address = memory->device_address + offset;
    return CUDA_SUCCESS;
}

// Both ends are the program's own memory. Everything before it in the stream comes first.
CUresult within_host(Call& call, const wire::Box& to, const wire::Box& from, uint64_t stream) {
    if (CUresult error = call.wait_for_stream(stream)) return error;
    for (uint64_t z = 0; z < to.depth; ++z) {
        for (uint64_t y = 0; y < to.height; ++y) {
            std::memmove(reinterpret_cast<void*>(to.address + (z * to.rows + y) * to.pitch),
                         reinterpret_cast<const void*>(from.address + (z * from.rows + y) * from.pitch),
                         to.width);
        }
    }
    return CUDA_SUCCESS;
}

CUresult settle_outputs(Call& call, const CopyPlaces& at) {
    const HostRange ranges[] = {{at.to.address, at.to_device ? 0 : wire::span(at.to)},
                                {at.from.address, at.from_device ? 0 : wire::span(at.from)}};
    return GraphOutputs::get().settle(call, ranges);
}

CUresult within_device(Call& call, const wire::Box& to, const wire::Box& from, uint64_t stream) {
    const wire::BoxCopy message{{to, stream}, from};
    return call.post(wire::kOpCopyBox, 0, &message, sizeof message);
}

}  // namespace

CUresult find_places(const cuda::CopyRequest& request, CopyPlaces& places) {
    for (const cuda::CopyEnd* end : {&request.to, &request.from}) {
        if (end->start == 0 && end->type != CU_MEMORYTYPE_ARRAY) return CUDA_ERROR_INVALID_VALUE;
    }
    End to, from;
    if (CUresult error = resolve(request.to, request, to)) return error;
    if (CUresult error = resolve(request.from, request, from)) return error;
    wire::join_rows(to.box, from.box);
    places = {to.box, from.box, to.on_device, from.on_device, to.in_place || from.in_place, to.pinned};
    return CUDA_SUCCESS;
}

namespace {

// The kind of end that a node of a graph shows.
CUmemorytype shown(const cuda::CopyEnd& end, bool on_device) {
    if (end.type == CU_MEMORYTYPE_ARRAY) return end.type;
    return on_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
}

graphs::Params node_params(cuda::CopyRequest request) {
    CopyPlaces places;
    graphs::check(find_places(request, places));
    request.from.type = shown(request.from, places.from_device);
    request.to.type = shown(request.to, places.to_device);
    return graphs::CopyParams{cuda::shown_copy(request)};
}

// Memory of the device; nothing of an array is shared with the host.
CUresult to_device_for(Call& call, const wire::Box& box, bool on_device) {
    return on_device && !box.array ? SharedMemory::get().to_device_for(call, box.address) : CUDA_SUCCESS;
}

}  // namespace

CUresult copy(const cuda::CopyRequest& request, CUstream stream, bool per_thread, Wait wait) {
    Call call;
    if (CUresult error = call.begin()) return error;
    uint64_t on = 0;
    if (!call.stream(stream, per_thread, on)) return CUDA_ERROR_INVALID_HANDLE;
    if (request.empty()) return CUDA_SUCCESS;
    if (wait == Wait::yes) {
        if (CUresult error = refuse_captured(stream, per_thread)) return error;
    } else if (auto answer = captured(stream, per_thread, [&] { return node_params(request); })) {
        return *answer;
    }
    CopyPlaces at;
    if (CUresult error = find_places(request, at)) return error;
    CUresult result = to_device_for(call, at.to, at.to_device);
    if (result == CUDA_SUCCESS) result = to_device_for(call, at.from, at.from_device);
    if (result != CUDA_SUCCESS) return result;
    if (at.to_device && at.from_device) {
        result = within_device(call, at.to, at.from, on);
    } else {
        // What a graph has yet to write to the program's memory is read, or would come over what is written
        // now.
        if (GraphOutputs::get().any()) {
            if (CUresult error = settle_outputs(call, at)) return error;
        }
        if (at.to_device) {
            if (CUresult error = HostCalls::get().wait_for(on, call)) return error;
            CopiesBack::get().settle(at.from.address, wire::span(at.from));
            result = call.copy_box_in(at.to, at.from, on, wait == Wait::yes);
        } else if (at.from_device && at.to_pinned && wait == Wait::no) {
            result = CopiesBack::get().submit(call, at.to, at.from, on);
        } else if (at.from_device) {
            result = call.copy_box_out(at.to, at.from, on);
        } else {
            result = within_host(call, at.to, at.from, on);
        }
    }
    if (result != CUDA_SUCCESS || wait == Wait::no) return result;
    if (at.host_sees && at.to_device) result = call.wait_for_stream(on);
    if (result == CUDA_SUCCESS) result = call.results_visible();
    return result;
}

}  // namespace client

CUresult front::platform::copy(const cuda::CopyRequest& request, CUstream stream, Wait wait) {
    return client::copy(request, stream, client::in_per_thread_form(), wait);
}

using namespace client;

namespace {

CUresult flat(CUmemorytype to_type, uint64_t to, CUmemorytype from_type, uint64_t from, size_t bytes,
              CUstream stream, bool per_thread, Wait wait) {
    return copy(cuda::flat_copy(to_type, to, from_type, from, bytes), stream, per_thread, wait);
}

CUresult in(CUdeviceptr to, const void* from, size_t bytes, CUstream stream, bool per_thread, Wait wait) {
    return flat(CU_MEMORYTYPE_DEVICE, to, CU_MEMORYTYPE_HOST, reinterpret_cast<uint64_t>(from), bytes, stream,
                per_thread, wait);
}

CUresult out(void* to, CUdeviceptr from, size_t bytes, CUstream stream, bool per_thread, Wait wait) {
    return flat(CU_MEMORYTYPE_HOST, reinterpret_cast<uint64_t>(to), CU_MEMORYTYPE_DEVICE, from, bytes, stream,
                per_thread, wait);
}

CUresult across(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream, bool per_thread, Wait wait) {
    return flat(CU_MEMORYTYPE_DEVICE, to, CU_MEMORYTYPE_DEVICE, from, bytes, stream, per_thread, wait);
}

// The addresses say which way.
CUresult any_way(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream, bool per_thread,
                 Wait wait) {
    return flat(CU_MEMORYTYPE_UNIFIED, to, CU_MEMORYTYPE_UNIFIED, from, bytes, stream, per_thread, wait);
}

// The pointers say on which devices they are; the contexts must exist all the same.
CUresult between(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
                 CUstream stream, bool per_thread, Wait wait) {
    if (!context_of(to_context) || !context_of(from_context)) return CUDA_ERROR_INVALID_CONTEXT;
    return across(to, from, bytes, stream, per_thread, wait);
}

}  // namespace

extern "C" {

CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount) {
    return in(dstDevice, srcHost, ByteCount, nullptr, false, Wait::yes);
}
CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount) {
    return in(dstDevice, srcHost, ByteCount, nullptr, true, Wait::yes);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount,
                              CUstream hStream) {
    return in(dstDevice, srcHost, ByteCount, hStream, false, Wait::no);
}
CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount,
                                   CUstream hStream) {
    return in(dstDevice, srcHost, ByteCount, hStream, true, Wait::no);
}

CUresult cuMemcpyDtoH_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
    return out(dstHost, srcDevice, ByteCount, nullptr, false, Wait::yes);
}
CUresult cuMemcpyDtoH_v2_ptds(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
    return out(dstHost, srcDevice, ByteCount, nullptr, true, Wait::yes);
}
CUresult cuMemcpyDtoHAsync_v2(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
    return out(dstHost, srcDevice, ByteCount, hStream, false, Wait::no);
}
CUresult cuMemcpyDtoHAsync_v2_ptsz(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
    return out(dstHost, srcDevice, ByteCount, hStream, true, Wait::no);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
    return across(dstDevice, srcDevice, ByteCount, nullptr, false, Wait::yes);
}
CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
    return across(dstDevice, srcDevice, ByteCount, nullptr, true, Wait::yes);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                              CUstream hStream) {
    return across(dstDevice, srcDevice, ByteCount, hStream, false, Wait::no);
}
CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                                   CUstream hStream) {
    return across(dstDevice, srcDevice, ByteCount, hStream, true, Wait::no);
}

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
    return any_way(dst, src, ByteCount, nullptr, false, Wait::yes);
}
CUresult cuMemcpy_ptds(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
    return any_way(dst, src, ByteCount, nullptr, true, Wait::yes);
}
CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
    return any_way(dst, src, ByteCount, hStream, false, Wait::no);
}
CUresult cuMemcpyAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
    return any_way(dst, src, ByteCount, hStream, true, Wait::no);
}

CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                      CUcontext srcContext, size_t ByteCount) {
    return between(dstDevice, dstContext, srcDevice, srcContext, ByteCount, nullptr, false, Wait::yes);
}
CUresult cuMemcpyPeer_ptds(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                           CUcontext srcContext, size_t ByteCount) {
    return between(dstDevice, dstContext, srcDevice, srcContext, ByteCount, nullptr, true, Wait::yes);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                           CUcontext srcContext, size_t ByteCount, CUstream hStream) {
    return between(dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream, false, Wait::no);
}
CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                                CUcontext srcContext, size_t ByteCount, CUstream hStream) {
    return between(dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream, true, Wait::no);
}
}
