#include "here.h"

#include "call.h"
#include "capture.h"
#include "lane.h"
#include "life.h"
#include "session.h"
#include "slice_file.h"
#include "stream_knowledge.h"
#include "thread.h"

namespace client {
namespace {

StreamName name_of(uint64_t stream, uint8_t device) {
    constexpr uint64_t kLegacy = 1;  // the same as 0
    StreamName name{stream <= kLegacy ? 0 : stream, 0, device};
    if (stream == kPerThreadStreamHandle) name.thread = Thread::current().number;
    return name;
}

CUresult wait_in(CUstream handle) {
    Call call;
    if (CUresult error = call.begin_for(handle)) return error;
    uint64_t stream = 0;
    if (!call.stream(handle, false, stream)) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult error = refuse_captured(handle, false)) return error;
    const StreamName name = name_of(stream, call.device());
    StreamKnowledge& known = Session::get().streams_known();
    const uint64_t posted = Session::get().posted();
    if (known.nothing_to_wait_for(name, posted)) {
        // Without a wait nobody hears that the worker is gone, and a program would go on with memory that is
        // nobody's.
        if (!Thread::current().lane->hung_up()) return CUDA_SUCCESS;
        Session::get().lose("the other end has closed it");
        return Session::get().error();
    }
    const CUresult result = call.synchronize(wire::kOpWaitInStream, 0, &stream, sizeof stream, nullptr, 0);
    if (result == CUDA_SUCCESS) known.waited(name, posted);
    return result;
}

}  // namespace
}  // namespace client

extern "C" {

void gkMapMemory(void) {
    client::SliceFile::get().want();
}

int gkIsMapped(unsigned long long address, size_t bytes) {
    const client::Entry entry;
    return client::Session::get().initialised() && client::SliceFile::get().holds(address, bytes);
}

int gkWaitInStream(CUstream stream) {
    const client::Entry entry;
    return client::wait_in(stream);
}

void gkTraffic(struct GkTraffic* traffic) {
    *traffic = client::Traffic::get().now();
}
}
