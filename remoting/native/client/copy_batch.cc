// Batches of copies, and copies with attributes.
#include "copy_batch.h"

#include "copy.h"

using namespace client;

namespace {

bool is_legacy(CUstream stream, bool per_thread) {
    return stream == CU_STREAM_LEGACY || (!stream && !per_thread);
}

CUresult batch(const cuda::CopyBatch& copies, size_t* failed, CUstream stream, bool per_thread) {
    size_t at = cuda::kWholeBatch;
    CUresult result = cuda::check_batch(copies, is_legacy(stream, per_thread));
    if (result == CUDA_SUCCESS) {
        result = cuda::each_copy(copies, at, [&](const cuda::CopyRequest& request) {
            return copy(request, stream, per_thread, Wait::no);
        });
    }
    if (failed) *failed = at;
    return result;
}

CUresult batch_3d(const CUDA_MEMCPY3D_BATCH_OP* list, size_t count, unsigned long long flags, size_t* failed,
                  CUstream stream, bool per_thread, bool legacy) {
    size_t at = cuda::kWholeBatch;
    const CUresult result = cuda::each_copy_3d(
        list, count, flags, legacy, at,
        [&](const cuda::CopyRequest& request) { return copy(request, stream, per_thread, Wait::no); });
    if (failed) *failed = at;
    return result;
}

CUresult with_attributes(CUdeviceptr to, CUdeviceptr from, size_t bytes, const CUmemcpyAttributes* attributes,
                         CUstream stream, bool per_thread) {
    if (!attributes || !cuda::known_order(attributes->srcAccessOrder)) return CUDA_ERROR_INVALID_VALUE;
    return copy(cuda::flat_copy(CU_MEMORYTYPE_UNIFIED, to, CU_MEMORYTYPE_UNIFIED, from, bytes), stream,
                per_thread, Wait::no);
}

}  // namespace

extern "C" {

CUresult cuMemcpyBatchAsync(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                            CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs, size_t* failIdx,
                            CUstream hStream) {
    return batch({dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs}, failIdx, hStream, false);
}
CUresult cuMemcpyBatchAsync_ptsz(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                                 CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs,
                                 size_t* failIdx, CUstream hStream) {
    return batch({dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs}, failIdx, hStream, true);
}
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                               CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs,
                               CUstream hStream) {
    return batch({dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs}, nullptr, hStream, false);
}
CUresult cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                                    CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs,
                                    CUstream hStream) {
    return batch({dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs}, nullptr, hStream, true);
}

CUresult cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, size_t* failIdx,
                              unsigned long long flags, CUstream hStream) {
    return batch_3d(opList, numOps, flags, failIdx, hStream, false, is_legacy(hStream, false));
}
CUresult cuMemcpy3DBatchAsync_ptsz(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, size_t* failIdx,
                                   unsigned long long flags, CUstream hStream) {
    return batch_3d(opList, numOps, flags, failIdx, hStream, true, is_legacy(hStream, true));
}
CUresult cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, unsigned long long flags,
                                 CUstream hStream) {
    return batch_3d(opList, numOps, flags, nullptr, hStream, false, is_legacy(hStream, false));
}
CUresult cuMemcpy3DBatchAsync_v2_ptsz(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, unsigned long long flags,
                                      CUstream hStream) {
    return batch_3d(opList, numOps, flags, nullptr, hStream, true, is_legacy(hStream, true));
}

CUresult cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t size, CUmemcpyAttributes* attr,
                                     CUstream hStream) {
    return with_attributes(dst, src, size, attr, hStream, false);
}
CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP* op, unsigned long long flags,
                                       CUstream hStream) {
    return batch_3d(op, 1, flags, nullptr, hStream, false, false);
}
CUresult cuMemcpyWithAttributesAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t size,
                                          CUmemcpyAttributes* attr, CUstream hStream) {
    return with_attributes(dst, src, size, attr, hStream, true);
}
CUresult cuMemcpy3DWithAttributesAsync_ptsz(CUDA_MEMCPY3D_BATCH_OP* op, unsigned long long flags,
                                            CUstream hStream) {
    return batch_3d(op, 1, flags, nullptr, hStream, true, false);
}
}
