/* What a line of calls.txt is made into: a weak function, so that a definition anywhere in this library takes
 * its place. It leaves its arguments alone, so it does not matter which they are. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif
int cublas_unsupported(const char* name);
#ifdef __cplusplus
}
#endif

#define UNSUPPORTED(name)                                         \
    __attribute__((visibility("default"), weak)) int name(void) { \
        return cublas_unsupported(#name);                         \
    }
