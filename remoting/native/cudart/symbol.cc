// Variables of device code by the name that the program has for them.
#include "copy.h"
#include "forward.h"
#include "registry.h"

using namespace cudart;

namespace {

// `copy(driver, address)` with the address of the variable's part.
template <typename Copy>
cudaError_t with_part(const void* symbol, size_t offset, size_t bytes, bool right_kind, Copy copy) {
    return call<Need::context>([&](const Driver& driver) {
        if (!right_kind) return cudaErrorInvalidMemcpyDirection;
        void* address;
        const cudaError_t error = find_part(driver, symbol, offset, bytes, address);
        return error == cudaSuccess && bytes ? translated(copy(driver, address)) : error;
    });
}

cudaError_t copy_to(const void* symbol, const void* src, size_t count, size_t offset, cudaMemcpyKind kind,
                    DefaultStream stream) {
    return with_part(symbol, offset, count, into_device(kind), [&](const Driver& driver, void* address) {
        return copy_now(driver, address, src, count, kind, stream);
    });
}

cudaError_t copy_from(void* dst, const void* symbol, size_t count, size_t offset, cudaMemcpyKind kind,
                      DefaultStream stream) {
    return with_part(symbol, offset, count, out_of_device(kind), [&](const Driver& driver, void* address) {
        return copy_now(driver, dst, address, count, kind, stream);
    });
}

}  // namespace

extern "C" {

cudaError_t cudaGetSymbolAddress(void** devPtr, const void* symbol) {
    return call<Need::context>([&](const Driver& driver) {
        if (!devPtr) return cudaErrorInvalidValue;
        CUdeviceptr address;
        size_t bytes;
        const cudaError_t error = find_variable(driver, symbol, address, bytes);
        if (error == cudaSuccess) *devPtr = reinterpret_cast<void*>(address);
        return error;
    });
}

cudaError_t cudaGetSymbolSize(size_t* size, const void* symbol) {
    return call<Need::context>([&](const Driver& driver) {
        if (!size) return cudaErrorInvalidValue;
        CUdeviceptr address;
        return find_variable(driver, symbol, address, *size);
    });
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* src, size_t count, size_t offset,
                               cudaMemcpyKind kind) {
    return copy_to(symbol, src, count, offset, kind, DefaultStream::legacy);
}

cudaError_t cudaMemcpyToSymbol_ptds(const void* symbol, const void* src, size_t count, size_t offset,
                                    cudaMemcpyKind kind) {
    return copy_to(symbol, src, count, offset, kind, DefaultStream::per_thread);
}

cudaError_t cudaMemcpyFromSymbol(void* dst, const void* symbol, size_t count, size_t offset,
                                 cudaMemcpyKind kind) {
    return copy_from(dst, symbol, count, offset, kind, DefaultStream::legacy);
}

cudaError_t cudaMemcpyFromSymbol_ptds(void* dst, const void* symbol, size_t count, size_t offset,
                                      cudaMemcpyKind kind) {
    return copy_from(dst, symbol, count, offset, kind, DefaultStream::per_thread);
}

cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* src, size_t count, size_t offset,
                                    cudaMemcpyKind kind, cudaStream_t stream) {
    return with_part(symbol, offset, count, into_device(kind), [&](const Driver& driver, void* address) {
        return copy_on(driver, address, src, count, kind, stream);
    });
}

cudaError_t cudaMemcpyFromSymbolAsync(void* dst, const void* symbol, size_t count, size_t offset,
                                      cudaMemcpyKind kind, cudaStream_t stream) {
    return with_part(symbol, offset, count, out_of_device(kind), [&](const Driver& driver, void* address) {
        return copy_on(driver, dst, address, count, kind, stream);
    });
}
}
