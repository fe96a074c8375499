// Entry points: copies in two and three dimensions, from and to arrays, and in batches.
#include "cuda/copy_batch.h"
#include "graphs/platform.h"
#include "platform.h"

using namespace front;

namespace {

CUresult copy_2d(const CUDA_MEMCPY2D* given, CUstream stream, Wait wait) {
    return call([&] {
        cuda::CopyRequest request;
        check(cuda::read_copy_2d(given, request, shape_of_array));
        return platform::copy(request, stream, wait);
    });
}

// Between contexts too: pointers say themselves on which devices they are.
template <typename Given>
CUresult copy_3d(const Given* given, CUstream stream, Wait wait) {
    return call([&] {
        cuda::CopyRequest request;
        check(cuda::read_copy_3d(given, request, shape_of_array));
        return platform::copy(request, stream, wait);
    });
}

// Of a batch.
CUresult copy_of_batch(const cuda::CopyRequest& request, CUstream stream) {
    return platform::copy(request, stream, Wait::no);
}

bool is_legacy(CUstream stream) {
    return graphs::platform::stream(stream).legacy;
}

CUresult batch(const cuda::CopyBatch& copies, size_t* failed, CUstream stream) {
    size_t at = cuda::kWholeBatch;
    const CUresult result = call([&] {
        check(cuda::check_batch(copies, is_legacy(stream)));
        return cuda::each_copy(
            copies, at, [&](const cuda::CopyRequest& request) { return copy_of_batch(request, stream); });
    });
    if (failed) *failed = at;
    return result;
}

CUresult batch_3d(const CUDA_MEMCPY3D_BATCH_OP* list, size_t count, unsigned long long flags, size_t* failed,
                  CUstream stream, bool may_be_legacy) {
    size_t at = cuda::kWholeBatch;
    const CUresult result = call([&] {
        return cuda::each_copy_3d(
            list, count, flags, !may_be_legacy && is_legacy(stream), at,
            [&](const cuda::CopyRequest& request) { return copy_of_batch(request, stream); }, shape_of_array);
    });
    if (failed) *failed = at;
    return result;
}

// Copies of CUDA's first releases, within the first row of an array.
CUDA_MEMCPY2D in_row(size_t bytes) {
    CUDA_MEMCPY2D copy{};
    copy.WidthInBytes = bytes;
    copy.Height = 1;
    return copy;
}
void set_from(CUDA_MEMCPY2D& copy, CUarray array, size_t offset) {
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = array;
    copy.srcXInBytes = offset;
}
void set_to(CUDA_MEMCPY2D& copy, CUarray array, size_t offset) {
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = array;
    copy.dstXInBytes = offset;
}

CUresult host_to_array(CUarray to, size_t offset, const void* from, size_t bytes, CUstream stream,
                       Wait wait) {
    CUDA_MEMCPY2D copy = in_row(bytes);
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = from;
    set_to(copy, to, offset);
    return copy_2d(&copy, stream, wait);
}

CUresult array_to_host(void* to, CUarray from, size_t offset, size_t bytes, CUstream stream, Wait wait) {
    CUDA_MEMCPY2D copy = in_row(bytes);
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = to;
    set_from(copy, from, offset);
    return copy_2d(&copy, stream, wait);
}

}  // namespace

extern "C" {

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* pCopy) {
    return copy_2d(pCopy, nullptr, Wait::yes);
}
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* pCopy) {
    return copy_2d(pCopy, nullptr, Wait::yes);
}
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* pCopy, CUstream hStream) {
    return copy_2d(pCopy, hStream, Wait::no);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* pCopy) {
    return copy_3d(pCopy, nullptr, Wait::yes);
}
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* pCopy, CUstream hStream) {
    return copy_3d(pCopy, hStream, Wait::no);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* pCopy) {
    return copy_3d(pCopy, nullptr, Wait::yes);
}
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* pCopy, CUstream hStream) {
    return copy_3d(pCopy, hStream, Wait::no);
}

CUresult cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void* srcHost, size_t ByteCount) {
    return host_to_array(dstArray, dstOffset, srcHost, ByteCount, nullptr, Wait::yes);
}
CUresult cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void* srcHost, size_t ByteCount,
                              CUstream hStream) {
    return host_to_array(dstArray, dstOffset, srcHost, ByteCount, hStream, Wait::no);
}

CUresult cuMemcpyAtoH_v2(void* dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
    return array_to_host(dstHost, srcArray, srcOffset, ByteCount, nullptr, Wait::yes);
}
CUresult cuMemcpyAtoHAsync_v2(void* dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount,
                              CUstream hStream) {
    return array_to_host(dstHost, srcArray, srcOffset, ByteCount, hStream, Wait::no);
}

CUresult cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount) {
    CUDA_MEMCPY2D copy = in_row(ByteCount);
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = srcDevice;
    set_to(copy, dstArray, dstOffset);
    return copy_2d(&copy, nullptr, Wait::yes);
}

CUresult cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
    CUDA_MEMCPY2D copy = in_row(ByteCount);
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = dstDevice;
    set_from(copy, srcArray, srcOffset);
    return copy_2d(&copy, nullptr, Wait::yes);
}

CUresult cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset,
                         size_t ByteCount) {
    CUDA_MEMCPY2D copy = in_row(ByteCount);
    set_from(copy, srcArray, srcOffset);
    set_to(copy, dstArray, dstOffset);
    return copy_2d(&copy, nullptr, Wait::yes);
}

CUresult cuMemcpyBatchAsync(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                            CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs, size_t* failIdx,
                            CUstream hStream) {
    return batch({dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs}, failIdx, hStream);
}
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr* dsts, CUdeviceptr* srcs, size_t* sizes, size_t count,
                               CUmemcpyAttributes* attrs, size_t* attrsIdxs, size_t numAttrs,
                               CUstream hStream) {
    return batch({dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs}, nullptr, hStream);
}

CUresult cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, size_t* failIdx,
                              unsigned long long flags, CUstream hStream) {
    return batch_3d(opList, numOps, flags, failIdx, hStream, false);
}
CUresult cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP* opList, unsigned long long flags,
                                 CUstream hStream) {
    return batch_3d(opList, numOps, flags, nullptr, hStream, false);
}

CUresult cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t size, CUmemcpyAttributes* attr,
                                     CUstream hStream) {
    return call([&] {
        require(attr && cuda::known_order(attr->srcAccessOrder));
        return platform::copy(cuda::flat_copy(CU_MEMORYTYPE_UNIFIED, dst, CU_MEMORYTYPE_UNIFIED, src, size),
                              hStream, Wait::no);
    });
}
CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP* op, unsigned long long flags,
                                       CUstream hStream) {
    return batch_3d(op, 1, flags, nullptr, hStream, true);
}
}
