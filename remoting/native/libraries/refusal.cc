// What a name answers that its library has and does not do: the library's own word for it.
#include "cuda/unsupported.h"

#include "roles.h"
#include "tell.h"

extern "C" int library_unsupported(const char* name) {
    cuda::say_unsupported(name, LIBRARY_STATUS LIBRARY_REFUSAL, libraries::tell_user);
    return LIBRARY_REFUSAL_CODE;
}
