/* What a line of calls.txt is made into: a weak function, so that a definition anywhere in this library takes
 * its place. One that leaves its arguments alone need not know which they are. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif
int cudnn_unsupported(const char* name);
int cudnn_create(void** descriptor);
int cudnn_destroy(void* descriptor);
#ifdef __cplusplus
}
#endif

#define CUDNN_NAME __attribute__((visibility("default"), weak)) int
#define UNSUPPORTED(name)                \
    CUDNN_NAME name(void) {              \
        return cudnn_unsupported(#name); \
    }
#define ROLE_create(name)                \
    CUDNN_NAME name(void** descriptor) { \
        return cudnn_create(descriptor); \
    }
#define ROLE_destroy(name)                \
    CUDNN_NAME name(void* descriptor) {   \
        return cudnn_destroy(descriptor); \
    }
#define ROLE_set(name)                                     \
    CUDNN_NAME name(void* descriptor) {                    \
        return descriptor ? 0 : 2002; /* "null pointer" */ \
    }
