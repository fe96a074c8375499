/* What a line of calls.txt is made into: a weak function, so that a definition anywhere in its library takes
 * its place. One that leaves its arguments alone need not know which they are, and fills the register of the
 * result whatever its type. A folder with more roles than this has a roles.h of its own. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif
/* Each library has its own: says it once a name, and gives the library's code for it. */
int library_unsupported(const char* name);
/* The same of a call that is done, but not of so much: `why` is for a person. */
int library_refuses(const char* name, const char* why);
/* `why` once, before the library's word for arguments that do not go together is given. */
void library_tells(const char* name, const char* why);
#ifdef __cplusplus
}
#endif

#define LIBRARY_NAME __attribute__((visibility("default"), weak)) long
#define UNSUPPORTED(name)                  \
    LIBRARY_NAME name(void) {              \
        return library_unsupported(#name); \
    }
/* CMakeLists.txt makes it: another name of a function. */
#define ROLE_second(name)
/* Not a function: so many bytes, zero. */
#define LIBRARY_DATA(name, bytes) __attribute__((visibility("default"))) char name[bytes];
