// The handles and the version of a library that computes nothing. CMakeLists.txt says which library it is.
#include <string>

#include "handles.h"
#include "roles.h"

namespace {

// These libraries number them alike.
enum Status : int { kSuccess = 0, kNotInitialized = 1, kAllocFailed = 2, kInvalidValue = 3 };

constexpr int kVersion[] = {LIBRARY_VERSION};

struct Handle {};

libraries::Handles<Handle>& handles() {
    static auto* const all = new libraries::Handles<Handle>;  // never destroyed: exit handlers may call
    return *all;
}

}  // namespace

extern "C" int standin_create(void** handle) {
    if (!handle) return kInvalidValue;
    *handle = handles().add();
    return *handle ? kSuccess : kAllocFailed;
}

extern "C" int standin_destroy(void* handle) {
    return handles().remove(handle) ? kSuccess : kNotInitialized;
}

extern "C" int standin_version(int* version) {
    if (!version) return kInvalidValue;
    *version = kVersion[0] * 1000 + kVersion[1] * 100 + kVersion[2];
    return kSuccess;
}

extern "C" int standin_version_of(void* handle, int* version) {
    return handles().find(handle) ? standin_version(version) : kNotInitialized;
}

extern "C" int standin_property(int part, int* value) {
    if (!value || part < 0 || part > 2) return kInvalidValue;
    *value = kVersion[part];
    return kSuccess;
}

extern "C" const char* standin_text(int status) {
    switch (status) {
        case kSuccess:
            return LIBRARY_STATUS "SUCCESS";
        case kNotInitialized:
            return LIBRARY_STATUS "NOT_INITIALIZED";
        case kAllocFailed:
            return LIBRARY_STATUS "ALLOC_FAILED";
        case kInvalidValue:
            return LIBRARY_STATUS "INVALID_VALUE";
        case LIBRARY_REFUSAL_CODE:
            return LIBRARY_STATUS LIBRARY_REFUSAL;
        default:
            return LIBRARY_STATUS "INTERNAL_ERROR";
    }
}
