#include "zstd.h"

#include <dlfcn.h>

namespace softgpu::driver {
namespace {

// zstd.h of libzstd, whose ABI has been stable since 1.0: it writes at most `capacity` bytes, and reports an
// error as a number that ZSTD_isError knows.
using Decompress = size_t (*)(void* into, size_t capacity, const void* from, size_t bytes);
using IsError = unsigned (*)(size_t result);

struct Library {
    Decompress decompress = nullptr;
    IsError is_error = nullptr;

    Library() {
        void* opened = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
        if (!opened) return;
        decompress = reinterpret_cast<Decompress>(dlsym(opened, "ZSTD_decompress"));
        is_error = reinterpret_cast<IsError>(dlsym(opened, "ZSTD_isError"));
    }
};

}  // namespace

Zstd unpack_zstd(std::span<const std::byte> packed, std::span<char> into) noexcept {
    static const Library library;
    if (!library.decompress || !library.is_error) return Zstd::absent;
    const size_t written = library.decompress(into.data(), into.size(), packed.data(), packed.size());
    return library.is_error(written) || written != into.size() ? Zstd::damaged : Zstd::unpacked;
}

}  // namespace softgpu::driver
