// The port's part about libraries, modules and links. Each backend defines these functions.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "jit_options.h"

namespace front {

// What a program hands over. It says itself where it ends; `bytes` bounds it where that is known.
struct Image {
    const void* data = nullptr;
    std::optional<size_t> bytes{};
    const char* name = nullptr;  // for messages
};

// Throws FILE_NOT_FOUND for what cannot be read, and INVALID_IMAGE for what is empty or too large to be one.
std::string read_image_file(const char* path);
// The last part of a path, by which messages name it.
const char* file_name(const char* path);

struct Variable {
    CUdeviceptr address = 0;
    size_t bytes = 0;
};

struct LinkInput {
    CUjitInputType type;
    std::string name;  // for a linker's messages; the software GPU's inputs name themselves
    std::string bytes;
};

// The links of the life that ends are good for cuLinkDestroy alone; their images stay until then.
void forget_links();

namespace platform {

template <class Handle>
using KernelIn = std::conditional_t<std::is_same_v<Handle, CUmodule>, CUfunction, CUkernel>;

// A library, or a module, which is a library of one context; as the handle of its kind finds it, which throws
// INVALID_HANDLE for what is none.
template <class Handle>
class Library {
  public:
    explicit Library(Handle handle);
    // A module is of the calling thread's context. Tells the options' logs.
    static Handle load(const Image& image, const JitOptions& options);
    void unload();  // throws NOT_PERMITTED for the module of a library

    size_t kernel_count() const;
    KernelIn<Handle> kernel(size_t index) const;
    // Throws NOT_FOUND or, for one that does not run, INVALID_PTX.
    KernelIn<Handle> kernel(const char* name) const;

    // In the calling thread's context. Throws NOT_FOUND. Of what is managed the host finds the bytes, too.
    Variable variable(const char* name, bool managed) const;
    CUmodule module() const;

  private:
    const Handle handle_;
    std::shared_ptr<void> object_;  // the backend's own, where it keeps one
};

// How much is kept of all inputs of a link together; what does not fit is refused as it is added.
size_t most_link_bytes();
// What is kept of an input: `bytes` of the program's, read as far as it can be before the others are there.
std::string take_input(CUjitInputType type, const Image& image, const JitOptions& options);
// All inputs, linked into an image that can be loaded. Tells the options' logs.
std::string link(std::span<const LinkInput> inputs, const JitOptions& options);

}  // namespace platform
}  // namespace front
