#include "messages.h"

#include <iterator>

#include "cublasLt_messages.h"
#include "cublas_messages.h"
#include "cudnn_messages.h"
#include "cufft/messages.h"
#include "curand/messages.h"
#include "cusolver_messages.h"
#include "cusparse_messages.h"

namespace maths {

#define GK_LIBRARY(name) {#name, name::kFunctions, name::name_of, name::fields_of, name::look_at}

const Library* library_of(uint16_t library) {
    static constexpr Library kLibraries[] = {
        GK_LIBRARY(cublas),
        GK_LIBRARY(cublasLt),
        GK_LIBRARY(cusolver),
        GK_LIBRARY(cudnn),
        GK_LIBRARY(cusparse),
        GK_LIBRARY(cufft),
        GK_LIBRARY(curand),
    };
    static_assert(std::size(kLibraries) == kGkLibraries);
    return library < kGkLibraries ? &kLibraries[library] : nullptr;
}

}  // namespace maths
