// Copies in two and three dimensions, between contexts, and in batches.
#include "copy.h"

using namespace client;

namespace {

CUresult copy_2d(const CUDA_MEMCPY2D* given, CUstream stream, bool per_thread, Wait wait) {
    cuda::CopyRequest request;
    if (CUresult error = cuda::read_copy_2d(given, request)) return error;
    return copy(request, stream, per_thread, wait);
}

template <typename Given>
CUresult copy_3d(const Given* given, CUstream stream, bool per_thread, Wait wait) {
    cuda::CopyRequest request;
    if (CUresult error = cuda::read_copy_3d(given, request)) return error;
    return copy(request, stream, per_thread, wait);
}

}  // namespace

extern "C" {

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* pCopy) {
    return copy_2d(pCopy, nullptr, false, Wait::yes);
}
CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D* pCopy) {
    return copy_2d(pCopy, nullptr, true, Wait::yes);
}
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* pCopy) {
    return copy_2d(pCopy, nullptr, false, Wait::yes);
}
CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D* pCopy) {
    return copy_2d(pCopy, nullptr, true, Wait::yes);
}
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* pCopy, CUstream hStream) {
    return copy_2d(pCopy, hStream, false, Wait::no);
}
CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D* pCopy, CUstream hStream) {
    return copy_2d(pCopy, hStream, true, Wait::no);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* pCopy) {
    return copy_3d(pCopy, nullptr, false, Wait::yes);
}
CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D* pCopy) {
    return copy_3d(pCopy, nullptr, true, Wait::yes);
}
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* pCopy, CUstream hStream) {
    return copy_3d(pCopy, hStream, false, Wait::no);
}
CUresult cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D* pCopy, CUstream hStream) {
    return copy_3d(pCopy, hStream, true, Wait::no);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER* pCopy) {
    return copy_3d(pCopy, nullptr, false, Wait::yes);
}
CUresult cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER* pCopy) {
    return copy_3d(pCopy, nullptr, true, Wait::yes);
}
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER* pCopy, CUstream hStream) {
    return copy_3d(pCopy, hStream, false, Wait::no);
}
CUresult cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D_PEER* pCopy, CUstream hStream) {
    return copy_3d(pCopy, hStream, true, Wait::no);
}
}
