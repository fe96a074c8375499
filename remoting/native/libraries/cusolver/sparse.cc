// cuSOLVER's sparse part: its matrices are described by cuSPARSE's descriptors.
#include <dlfcn.h>

#include "cusolver_messages.h"
#include "own_call.h"
#include "roles.h"
#include "status.h"

namespace maths::cusolver {
namespace {

constexpr char kCusparse[] = "libcusparse.so.12";  // which goes with both majors of cuSOLVER

// A general matrix' index base, as the library says that made the descriptor; -1 for another matrix.
int base_of(const void* descriptor) {
    void* const library = dlopen(kCusparse, RTLD_NOW | RTLD_NOLOAD);
    if (!library) return -1;
    using Ask = int (*)(const void*);
    const auto type = reinterpret_cast<Ask>(dlsym(library, "cusparseGetMatType"));
    const auto base = reinterpret_cast<Ask>(dlsym(library, "cusparseGetMatIndexBase"));
    const int answer = descriptor && type && base && type(descriptor) == 0 ? base(descriptor) : -1;
    dlclose(library);
    return answer;
}

struct Csr {
    int rows, entries;
    const void *descriptor, *values, *offsets, *indices;
};

int solve_by_qr(const void* handle, uint16_t function, const Csr& a, const void* b, double tolerance,
                int reorder, void* x, int* singularity) {
    OwnCall call(::cusolver::all_of<::cusolver::SparseHandle>().find(handle), function, false);
    csrlsvqr message{};
    message.m = a.rows, message.nnz = a.entries, message.base = base_of(a.descriptor);
    message.values = reinterpret_cast<uint64_t>(a.values);
    message.offsets = reinterpret_cast<uint64_t>(a.offsets);
    message.indices = reinterpret_cast<uint64_t>(a.indices);
    message.b = reinterpret_cast<uint64_t>(b), message.x = reinterpret_cast<uint64_t>(x);
    message.tolerance = tolerance, message.reorder = reorder;
    call.answer(message.singularity, singularity, kI32);
    return call.send_and_fetch(&message, sizeof message);
}

}  // namespace
}  // namespace maths::cusolver

#define GK_CSRLSVQR(T, Real)                                                                              \
    MATHS_EXPORT int cusolverSp##T##csrlsvqr(                                                             \
        void* handle, int m, int nnz, void* descriptor, const void* values, const int* offsets,           \
        const int* indices, const void* b, Real tolerance, int reorder, void* x, int* singularity) {      \
        return maths::cusolver::solve_by_qr(handle, maths::cusolver::k_cusolverSp##T##csrlsvqr,           \
                                            {m, nnz, descriptor, values, offsets, indices}, b, tolerance, \
                                            reorder, x, singularity);                                     \
    }
GK_CSRLSVQR(S, float)
GK_CSRLSVQR(D, double)
GK_CSRLSVQR(C, float)
GK_CSRLSVQR(Z, double)
