#include "handle.h"

#include "driver.h"
#include "roles.h"
#include "status.h"

using namespace cusolver;
using maths::Settings;

#define CUSOLVER_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

template <typename Object>
Status create(void** to) {
    if (!to) return kInvalidValue;
    *to = all_of<Object>().add();
    return *to ? kSuccess : kAllocFailed;
}
template <typename Object>
Status destroy(void* object) {
    return all_of<Object>().remove(object) ? kSuccess : kInvalidValue;
}

template <typename Value>
Status set(void* settings, Value Settings::* member, Value value) {
    const auto found = all_of<Settings>().find(settings);
    if (!found) return kInvalidValue;
    Settings changed = *found;
    changed.*member = value;
    if (!are_settings(changed)) return kInvalidValue;
    (*found).*member = value;
    return kSuccess;
}

// Told here, and not in the midst of work: that nothing computes.
template <typename Kind>
Status create_handle(void** handle, const char* name) {
    if (!handle) return kInvalidValue;
    if (!libraries::driver()) return kNotInitialized;
    if (libraries::look(kGkCusolver, CUSOLVER_MAJOR) == CUDA_ERROR_NOT_SUPPORTED) {
        library_unsupported(name);
        return kNotInitialized;
    }
    return create<Kind>(handle);
}

}  // namespace

#define GK_HANDLE(Part, Kind)                                                          \
    CUSOLVER_EXPORT Status cusolver##Part##Create(void** handle) {                     \
        return create_handle<Kind>(handle, "cusolver" #Part "Create on this GPU");     \
    }                                                                                  \
    CUSOLVER_EXPORT Status cusolver##Part##Destroy(void* handle) {                     \
        return all_of<Kind>().remove(handle) ? kSuccess : kNotInitialized;             \
    }                                                                                  \
    CUSOLVER_EXPORT Status cusolver##Part##SetStream(void* handle, CUstream stream) {  \
        const auto found = all_of<Kind>().find(handle);                                \
        if (!found) return kNotInitialized;                                            \
        found->stream = stream;                                                        \
        return kSuccess;                                                               \
    }                                                                                  \
    CUSOLVER_EXPORT Status cusolver##Part##GetStream(void* handle, CUstream* stream) { \
        const auto found = all_of<Kind>().find(handle);                                \
        if (!found) return kNotInitialized;                                            \
        if (!stream) return kInvalidValue;                                             \
        *stream = found->stream;                                                       \
        return kSuccess;                                                               \
    }
GK_HANDLE(Dn, DenseHandle)
GK_HANDLE(Sp, SparseHandle)

CUSOLVER_EXPORT Status cusolverDnCreateParams(void** params) {
    return create<Params>(params);
}

CUSOLVER_EXPORT Status cusolverDnDestroyParams(void* params) {
    return destroy<Params>(params);
}

#define GK_SETTINGS(Name, name)                                                                \
    CUSOLVER_EXPORT Status cusolverDnCreate##Name##Info(void** settings) {                     \
        return create<Settings>(settings);                                                     \
    }                                                                                          \
    CUSOLVER_EXPORT Status cusolverDnDestroy##Name##Info(void* settings) {                     \
        return destroy<Settings>(settings);                                                    \
    }                                                                                          \
    CUSOLVER_EXPORT Status cusolverDnX##name##SetTolerance(void* settings, double tolerance) { \
        return set(settings, &Settings::tolerance, tolerance);                                 \
    }                                                                                          \
    CUSOLVER_EXPORT Status cusolverDnX##name##SetMaxSweeps(void* settings, int sweeps) {       \
        return set(settings, &Settings::sweeps, sweeps);                                       \
    }                                                                                          \
    CUSOLVER_EXPORT Status cusolverDnX##name##SetSortEig(void* settings, int sorted) {         \
        return set(settings, &Settings::sorted, sorted);                                       \
    }

GK_SETTINGS(Syevj, syevj)
GK_SETTINGS(Gesvdj, gesvdj)
