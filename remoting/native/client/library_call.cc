// Calls of maths libraries (libraries/call.h): work of a stream that the worker has done, posted as a launch
// is.
#include <cstring>

#include "call.h"
#include "capture.h"
#include "libraries/call.h"
#include "life.h"
#include "mapped.h"
#include "payload.h"

using namespace client;

namespace {

// Whether the worker has something that computes the library's calls, and what.
CUresult look(const void* bytes, size_t count) {
    GkLook look;
    if (count != sizeof look) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(&look, bytes, sizeof look);
    Call call;
    if (CUresult error = call.begin_without_context()) return error;
    const wire::LibraryLook message{look.head.library, look.head.major};
    GkEnd end{};
    if (CUresult error = call.ask(wire::kOpLibraryLook, 0, &message, sizeof message, &end, sizeof end))
        return error;
    if (look.end) *look.end = end;
    return CUDA_SUCCESS;
}

// Whether the call that follows would be done.
CUresult ask(const std::byte* bytes, size_t count) {
    GkAsk question;
    if (count < sizeof question) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(&question, bytes, sizeof question);
    Call call;
    if (CUresult error = call.begin_without_context()) return error;
    wire::LibraryLook message{question.head.library, question.head.major};
    const iovec parts[2] = {{&message, sizeof message},
                            {const_cast<std::byte*>(bytes + sizeof question), count - sizeof question}};
    std::span<const std::byte> answer;
    if (CUresult error = call.ask_parts(wire::kOpLibraryLook, 0, parts, 2, answer)) return error;
    uint64_t workspace_bytes = 0;
    if (!wire::Reader(answer).take(workspace_bytes)) return CUDA_ERROR_UNKNOWN;
    if (question.workspace_bytes) *question.workspace_bytes = workspace_bytes;
    return CUDA_SUCCESS;
}

// After the calls that the thread has posted.
CUresult forget(const std::byte* bytes, size_t count) {
    Call call;
    if (CUresult error = call.begin()) return error;
    const uint64_t on = 0;
    const iovec parts[2] = {{const_cast<uint64_t*>(&on), sizeof on}, {const_cast<std::byte*>(bytes), count}};
    return call.post_parts(wire::kOpLibraryCall, 0, parts, 2);
}

CUresult submit(CUstream stream, const std::byte* bytes, size_t count) {
    Call call;
    if (CUresult error = call.begin_for(stream)) return error;
    uint64_t on = 0;
    if (!call.stream(stream, false, on)) return CUDA_ERROR_INVALID_HANDLE;
    if (CUresult error = refuse_captured(stream, false)) return error;
    if (CUresult error = reach_parameters(call, bytes + sizeof(GkLibraryCall), count - sizeof(GkLibraryCall)))
        return error;
    if (CUresult error = call.uses_memory()) return error;
    const iovec parts[2] = {{&on, sizeof on}, {const_cast<std::byte*>(bytes), count}};
    return call.post_parts(wire::kOpLibraryCall, 0, parts, 2);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int gkLibraryCall(void* stream, const void* call,
                                                                    size_t bytes) {
    const Entry entry;
    GkLibraryCall head;
    if (!call || bytes < sizeof head || bytes > kGkMostCallBytes) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(&head, call, sizeof head);
    if (head.function == kGkLook) return look(call, bytes);
    const auto* const begin = static_cast<const std::byte*>(call);
    if (head.function == kGkAsk) return ask(begin, bytes);
    return head.function == kGkForget ? forget(begin, bytes)
                                      : submit(static_cast<CUstream>(stream), begin, bytes);
}
