/* What roles cuDNN's names have beside being unsupported. */
#pragma once

#include "../roles.h"

#ifdef __cplusplus
extern "C" {
#endif
int cudnn_create(void** descriptor);
int cudnn_destroy(void* descriptor);
#ifdef __cplusplus
}
#endif

#define ROLE_create(name)                  \
    LIBRARY_NAME name(void** descriptor) { \
        return cudnn_create(descriptor);   \
    }
#define ROLE_destroy(name)                \
    LIBRARY_NAME name(void* descriptor) { \
        return cudnn_destroy(descriptor); \
    }
#define ROLE_set(name)                                     \
    LIBRARY_NAME name(void* descriptor) {                  \
        return descriptor ? 0 : 2002; /* "null pointer" */ \
    }
