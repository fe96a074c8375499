// CUPTI's tracing, of a GPU that nothing is recorded of: profilers start and end, and find no records. As
// NVIDIA's documentation of the API has it.
#include <stdint.h>
#include <time.h>

#include <atomic>
#include <map>
#include <new>
#include <vector>

#include "roles.h"
#include "tell.h"

#define CUPTI_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

enum Result : int {
    kSuccess = 0,
    kInvalidParameter = 1,
    kOutOfMemory = 8,
    kMaxLimitReached = 12,  // "no more records"
    kQueueEmpty = 18,
    kNotSupported = 27,
    kMultipleSubscribers = 39,
};

std::atomic<char*> subscriber{nullptr};  // there is one at a time

std::vector<uint64_t>& correlations(int kind) {
    static thread_local std::map<int, std::vector<uint64_t>> of_this_thread;
    return of_this_thread[kind];
}

Result write_none(size_t* dropped) {
    if (!dropped) return kInvalidParameter;
    *dropped = 0;
    return kSuccess;
}

}  // namespace

// Every kind of record and every callback is accepted, and none comes.
extern "C" int cupti_enable() {
    static std::atomic<bool> told{false};
    if (!told.exchange(true)) {
        libraries::tell_user(
            "kernels and copies are not recorded on a slice of a GPU: a profile shows what the processor does.");
    }
    return kSuccess;
}

CUPTI_EXPORT Result cuptiGetVersion(uint32_t* version) {
    if (!version) return kInvalidParameter;
    *version = LIBRARY_VERSION;
    return kSuccess;
}

CUPTI_EXPORT Result cuptiSubscribe(char** handle, void*, void*) {
    if (!handle) return kInvalidParameter;
    char* const made = new (std::nothrow) char;
    if (!made) return kOutOfMemory;
    char* none = nullptr;
    if (!subscriber.compare_exchange_strong(none, made)) {
        delete made;
        return kMultipleSubscribers;
    }
    *handle = made;
    return kSuccess;
}

CUPTI_EXPORT Result cuptiUnsubscribe(char* handle) {
    if (!handle || !subscriber.compare_exchange_strong(handle, nullptr)) return kInvalidParameter;
    delete handle;
    return kSuccess;
}

CUPTI_EXPORT Result cuptiFinalize() {
    delete subscriber.exchange(nullptr);
    return kSuccess;
}

// The profilers of frameworks compare it with the system's clock.
CUPTI_EXPORT Result cuptiGetTimestamp(uint64_t* timestamp) {
    if (!timestamp) return kInvalidParameter;
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    *timestamp = static_cast<uint64_t>(now.tv_sec) * 1000000000 + static_cast<uint64_t>(now.tv_nsec);
    return kSuccess;
}

CUPTI_EXPORT Result cuptiActivityGetNextRecord(const uint8_t*, size_t, void** record) {
    if (!record) return kInvalidParameter;
    *record = nullptr;
    return kMaxLimitReached;
}

CUPTI_EXPORT Result cuptiActivityGetNumDroppedRecords(void*, uint32_t, size_t* dropped) {
    return write_none(dropped);
}

CUPTI_EXPORT Result cuptiActivityPushExternalCorrelationId(int kind, uint64_t id) {
    correlations(kind).push_back(id);
    return kSuccess;
}

CUPTI_EXPORT Result cuptiActivityPopExternalCorrelationId(int kind, uint64_t* id) {
    auto& ids = correlations(kind);
    if (ids.empty()) return kQueueEmpty;
    if (id) *id = ids.back();
    ids.pop_back();
    return kSuccess;
}

CUPTI_EXPORT Result cuptiGetLastError() {
    return kSuccess;
}

CUPTI_EXPORT Result cuptiGetResultString(Result result, const char** text) {
    if (!text) return kInvalidParameter;
    switch (result) {
        case kSuccess:
            *text = "CUPTI_SUCCESS";
            break;
        case kMaxLimitReached:
            *text = "CUPTI_ERROR_MAX_LIMIT_REACHED";
            break;
        case kQueueEmpty:
            *text = "CUPTI_ERROR_QUEUE_EMPTY";
            break;
        case kMultipleSubscribers:
            *text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
            break;
        case kNotSupported:
            *text = "CUPTI_ERROR_NOT_SUPPORTED";
            break;
        default:
            *text = "CUPTI_ERROR_INVALID_PARAMETER";
    }
    return kSuccess;
}

CUPTI_EXPORT Result cuptiGetErrorMessage(Result result, const char** text) {
    return cuptiGetResultString(result, text);
}
