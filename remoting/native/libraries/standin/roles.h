/* What roles the names of a library have that computes nothing: it has handles, and says its version. */
#pragma once

#include "../roles.h"

#ifdef __cplusplus
extern "C" {
#endif
int standin_create(void** handle);
int standin_destroy(void* handle);
int standin_version(int* version);
int standin_version_of(void* handle, int* version);
int standin_property(int part, int* value);
const char* standin_text(int status);
#ifdef __cplusplus
}
#endif

#define ROLE_create(name)              \
    LIBRARY_NAME name(void** handle) { \
        return standin_create(handle); \
    }
#define ROLE_destroy(name)              \
    LIBRARY_NAME name(void* handle) {   \
        return standin_destroy(handle); \
    }
#define ROLE_version(name)              \
    LIBRARY_NAME name(int* version) {   \
        return standin_version(version); \
    }
#define ROLE_versionof(name)                        \
    LIBRARY_NAME name(void* handle, int* version) { \
        return standin_version_of(handle, version); \
    }
#define ROLE_property(name)                     \
    LIBRARY_NAME name(int part, int* value) {   \
        return standin_property(part, value);   \
    }
#define ROLE_text(name)                                                                 \
    __attribute__((visibility("default"), weak)) const char* name(int status) {         \
        return standin_text(status);                                                    \
    }
/* As the ones without a role, from a function that returns an address. */
#define ROLE_pointer(name)                                            \
    __attribute__((visibility("default"), weak)) void* name(void) {   \
        library_unsupported(#name);                                   \
        return 0;                                                     \
    }
/* As the ones without a role, from a function that returns a number of bytes, or a code below zero. */
#define ROLE_bytes(name)                    \
    LIBRARY_NAME name(void) {               \
        return -library_unsupported(#name); \
    }
