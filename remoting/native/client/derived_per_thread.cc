// The forms for the per-thread default stream of the entry points that derived/ has.
#include "cuda_abi.h"

namespace {

CUstream own(CUstream stream) {
    return stream ? stream : CU_STREAM_PER_THREAD;
}

}  // namespace

extern "C" {

CUresult cuStreamGetAttribute_ptsz(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue* value_out) {
    return cuStreamGetAttribute(own(hStream), attr, value_out);
}
CUresult cuStreamSetAttribute_ptsz(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue* value) {
    return cuStreamSetAttribute(own(hStream), attr, value);
}
CUresult cuStreamCopyAttributes_ptsz(CUstream dst, CUstream src) {
    return cuStreamCopyAttributes(own(dst), own(src));
}
}
