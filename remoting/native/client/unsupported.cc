#include "cuda_abi.h"
#include "log.h"

// The hook of what follows from cuda.h.
extern "C" void gk_tell_user(const char* text) {
    client::tell_user(text);
}
