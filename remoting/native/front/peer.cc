// Entry points: access to another context's memory. No slice reaches another one's, nor a software GPU
// another one's; copies between them work (cuMemcpyPeer).
#include "context.h"
#include "platform.h"

using namespace front;

namespace {

std::shared_ptr<Context> require_peer(CUcontext handle) {
    auto peer = platform::find_context(handle);
    require(peer != nullptr, CUDA_ERROR_INVALID_CONTEXT);
    return peer;
}

}  // namespace

extern "C" {

CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags) {
    return call([&] {
        const auto context = working_context();
        require(require_peer(peerContext) != context, CUDA_ERROR_INVALID_CONTEXT);
        require(Flags == 0);
        refuse(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    });
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext) {
    return call([&] {
        working_context();
        require_peer(peerContext);
        refuse(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    });
}
}
