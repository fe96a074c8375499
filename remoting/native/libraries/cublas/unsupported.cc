#include "codegen/unsupported.h"

#include "roles.h"
#include "status.h"
#include "tell.h"

extern "C" int library_unsupported(const char* name) {
    cuda::say_unsupported(name, "CUBLAS_STATUS_NOT_SUPPORTED", libraries::tell_user);
    return cublas::kNotSupported;
}
