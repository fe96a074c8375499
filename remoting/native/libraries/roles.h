/* What a line of calls.txt is made into: a weak function, so that a definition anywhere in its library takes its
 * place. One that leaves its arguments alone need not know which they are. A folder with more roles than this
 * has a roles.h of its own. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif
/* Each library has its own: says it once a name, and gives the library's code for it. */
int library_unsupported(const char* name);
#ifdef __cplusplus
}
#endif

#define LIBRARY_NAME __attribute__((visibility("default"), weak)) int
#define UNSUPPORTED(name)                  \
    LIBRARY_NAME name(void) {              \
        return library_unsupported(#name); \
    }
