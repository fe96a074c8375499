#include "library.h"

#include <cstring>
#include <mutex>

#include "blake2b.h"
#include "call.h"
#include "context.h"
#include "image.h"
#include "image_file.h"
#include "log.h"
#include "memory_map.h"
#include "shared_memory.h"

namespace client {
namespace {

// Guards the maps inside the libraries; their handles have their own lock.
std::mutex& library_mutex() {
    static auto* mutex = new std::mutex;
    return *mutex;
}

struct Row {
    wire::KernelRow head;
    std::string_view name;
    std::vector<wire::ParamRow> params;
};

bool take_row(wire::Reader& reply, Row& row) {
    if (!reply.take(row.head) || row.head.name_bytes > wire::kMaxNameBytes ||
        row.head.param_count > wire::kMaxParamBytes || !reply.take_text(row.head.name_bytes, row.name)) {
        return false;
    }
    for (uint32_t i = 0; i < row.head.param_count; ++i) {
        wire::ParamRow param;
        if (!reply.take(param) || param.bytes > wire::kMaxParamBytes || param.offset > wire::kMaxParamBytes ||
            param.offset + param.bytes > wire::kMaxParamBytes) {
            return false;
        }
        row.params.push_back(param);
    }
    return true;
}

uint64_t add_kernel(uint64_t library, uint64_t context, uint32_t index, uint8_t device, Row& row) {
    return kernels().add([&](Kernel& kernel, uint64_t) {
        kernel.library = library;
        kernel.context = context;
        kernel.index = index;
        kernel.device = device;
        kernel.name = std::make_shared<const std::string>(row.name);
        kernel.params = std::move(row.params);
        for (const auto& param : kernel.params) {
            kernel.param_bytes = std::max(kernel.param_bytes, param.offset + param.bytes);
        }
        std::memcpy(kernel.attributes, row.head.attributes, sizeof kernel.attributes);
    });
}

void remove_library(uint64_t handle) {
    const std::lock_guard lock(library_mutex());
    Library* library = libraries().find(handle);
    if (!library) return;
    for (uint64_t kernel : library->in_order) kernels().remove(kernel);
    for (const auto& globals : library->globals) {
        for (const auto& [name, place] : globals) forget_managed_variable(place.first);
    }
    libraries().remove(handle);
}

bool enter_refused(wire::Reader& reply, uint32_t count, Library& library) {
    for (uint32_t i = 0; i < count; ++i) {
        wire::RefusedRow head;
        std::string_view name, why;
        if (!reply.take(head) || head.name_bytes > wire::kMaxNameBytes ||
            head.why_bytes > wire::kMaxRefusalBytes || !reply.take_text(head.name_bytes, name) ||
            !reply.take_text(head.why_bytes, why)) {
            return false;
        }
        library.refused.emplace(name, why);
    }
    return true;
}

bool enter_kernels(wire::Reader& reply, const wire::LoadReply& answer, uint64_t handle, uint8_t device) {
    const std::lock_guard lock(library_mutex());
    Library& library = *libraries().find(handle);
    for (uint32_t i = 0; i < answer.kernel_count; ++i) {
        Row row;
        if (!take_row(reply, row)) return false;
        const std::string name(row.name);
        const uint64_t kernel = add_kernel(handle, library.context, i, device, row);
        if (!kernel) return false;
        library.in_order.push_back(kernel);
        library.kernels.emplace(name, kernel);
    }
    return enter_refused(reply, answer.refused_count, library) && reply.finished();
}

// One round of the load. With the image inline, or by its name alone.
CUresult ask_load(Call& call, wire::LoadHead& head, std::span<const std::byte> image, JitOptions& options,
                  uint64_t handle, bool& need_image) {
    const auto numbers = options.numbers();
    const iovec parts[3] = {{&head, sizeof head},
                            {const_cast<wire::JitOption*>(numbers.data()), numbers.size_bytes()},
                            {const_cast<std::byte*>(image.data()), head.inline_image ? image.size() : 0}};
    std::span<const std::byte> payload;
    const CUresult status = call.ask_parts(wire::kOpLoadLibrary, 0, parts, 3, payload);
    if (payload.empty()) return status ? status : CUDA_ERROR_UNKNOWN;
    wire::Reader reply(payload);
    wire::LoadReply answer{};
    if (!reply.take(answer) || !options.take_logs(reply, answer.info_log_bytes, answer.error_log_bytes)) {
        return CUDA_ERROR_UNKNOWN;
    }
    need_image = answer.need_image;
    if (status || need_image) return status;
    return enter_kernels(reply, answer, handle, call.device()) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

}  // namespace

HandleTable<Library>& libraries() {
    static auto* table = new HandleTable<Library>(wire::HandleKind::library);
    return *table;
}

HandleTable<Kernel>& kernels() {
    static auto* table = new HandleTable<Kernel>(wire::HandleKind::kernel);
    return *table;
}

// One image after the other: the worker takes pieces of one image from one thread, and few images at once.
CUresult upload_image(Call& call, const wire::Digest& digest, std::span<const std::byte> image) {
    static auto* mutex = new std::mutex;
    const std::lock_guard lock(*mutex);
    for (uint64_t offset = 0; offset < image.size();) {
        const uint64_t bytes = std::min<uint64_t>(image.size() - offset, wire::kChunk);
        wire::UploadHead head{digest, offset, image.size()};
        const iovec parts[2] = {{&head, sizeof head}, {const_cast<std::byte*>(image.data()) + offset, bytes}};
        if (CUresult error = call.post_parts(wire::kOpUploadImage, 0, parts, 2)) return error;
        offset += bytes;
    }
    return CUDA_SUCCESS;
}

std::vector<uint64_t> take_modules(uint64_t context) {
    std::vector<uint64_t> taken;
    for (const uint64_t handle : libraries().all()) {
        const Library* library = libraries().find(handle);
        if (!library || library->context != context) continue;
        remove_library(handle);
        taken.push_back(handle);
    }
    return taken;
}

CUresult reset_libraries(uint8_t device) {
    std::vector<uint64_t> all;
    {
        const std::lock_guard lock(library_mutex());
        for (const uint64_t handle : libraries().all()) {
            Library* library = libraries().find(handle);
            if (!library || library->context) continue;
            for (auto& globals : library->globals) {
                for (const auto& [name, place] : globals) forget_managed_variable(place.first);
                globals.clear();
            }
            all.push_back(handle);
        }
    }
    if (all.empty()) return CUDA_SUCCESS;
    Call call;
    if (CUresult error = call.begin_on(device)) return error;
    constexpr size_t kAtOnce = wire::kChunk / sizeof(uint64_t);
    for (size_t sent = 0; sent < all.size(); sent += kAtOnce) {
        const size_t bytes = std::min(kAtOnce, all.size() - sent) * sizeof(uint64_t);
        if (CUresult error = call.post(wire::kOpResetLibraries, 0, all.data() + sent, bytes)) return error;
    }
    return CUDA_SUCCESS;
}

void forget_libraries() {
    kernels().forget_all();
    libraries().forget_all();
}

CUresult load_library(std::span<const std::byte> image, JitOptions& options, bool module, uint64_t& handle) {
    Call call;
    if (CUresult error = module ? call.begin() : call.begin_anew()) return error;
    handle = libraries().add([&](Library& library, uint64_t) {
        library.device = call.device();
        if (module) library.context = current_context_id();
    });
    if (!handle) return CUDA_ERROR_OUT_OF_MEMORY;
    wire::LoadHead head{};
    head.library = handle;
    head.digest = wire::blake2b(image.data(), image.size());
    head.image_bytes = image.size();
    head.inline_image = image.size() <= wire::kInlineImage;
    head.option_count = static_cast<uint32_t>(options.numbers().size());
    head.info_log_bytes = options.info_log_bytes();
    head.error_log_bytes = options.error_log_bytes();
    bool need_image = false;
    CUresult result = ask_load(call, head, image, options, handle, need_image);
    if (result == CUDA_SUCCESS && need_image) {
        result = upload_image(call, head.digest, image);
        if (result == CUDA_SUCCESS) result = ask_load(call, head, image, options, handle, need_image);
        if (result == CUDA_SUCCESS && need_image) result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result != CUDA_SUCCESS) remove_library(handle);
    return result;
}

namespace {

CUresult unload(uint64_t handle) {
    Call call;
    if (CUresult error = call.begin_without_context()) return error;
    if (!libraries().find(handle)) return CUDA_ERROR_INVALID_HANDLE;
    remove_library(handle);
    return call.post(wire::kOpUnloadLibrary, 0, &handle, sizeof handle);
}

CUresult find_kernel(uint64_t handle, const char* name, uint64_t& kernel) {
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    const std::lock_guard lock(library_mutex());
    const Library* library = libraries().find(handle);
    if (!library) return CUDA_ERROR_INVALID_HANDLE;
    auto found = library->kernels.find(std::string_view(name));
    if (found != library->kernels.end()) {
        kernel = found->second;
        return CUDA_SUCCESS;
    }
    const auto refused = library->refused.find(std::string_view(name));
    if (refused == library->refused.end()) return CUDA_ERROR_NOT_FOUND;
    tell_user(refused->second);
    return CUDA_ERROR_INVALID_PTX;
}

CUresult find_global(uint64_t handle, const char* name, CUdeviceptr* address, size_t* bytes) {
    Call call;
    if (CUresult error = call.begin_without_context()) return error;
    if (!name || std::strlen(name) > wire::kMaxNameBytes) return CUDA_ERROR_INVALID_VALUE;
    std::pair<uint64_t, uint64_t> place{};
    {
        const std::lock_guard lock(library_mutex());
        const Library* library = libraries().find(handle);
        if (!library) return CUDA_ERROR_INVALID_HANDLE;
        if (auto known = library->globals[call.device()].find(std::string_view(name));
            known != library->globals[call.device()].end()) {
            place = known->second;
        }
    }
    // The context that it was asked in may have ended, and the map has forgotten it.
    if (place.second && !MemoryMap::get().find(place.first)) place = {};
    if (!place.second) {
        wire::GlobalHead head{handle, static_cast<uint32_t>(std::strlen(name)), 0};
        const iovec parts[2] = {{&head, sizeof head}, {const_cast<char*>(name), head.name_bytes}};
        std::span<const std::byte> payload;
        if (CUresult error = call.ask_parts(wire::kOpGetGlobal, 0, parts, 2, payload)) return error;
        wire::Reader reply(payload);
        if (!reply.take(place.first) || !reply.take(place.second)) return CUDA_ERROR_UNKNOWN;
        Memory memory;
        memory.base = memory.device_address = place.first;
        memory.bytes = place.second;
        memory.device = call.device();
        memory.global = true;
        MemoryMap::get().add(memory);
        const std::lock_guard lock(library_mutex());
        if (Library* library = libraries().find(handle)) library->globals[call.device()].emplace(name, place);
    }
    if (address) *address = place.first;
    if (bytes) *bytes = place.second;
    return CUDA_SUCCESS;
}

CUresult count_kernels(unsigned* count, uint64_t handle) {
    if (!count) return CUDA_ERROR_INVALID_VALUE;
    const std::lock_guard lock(library_mutex());
    const Library* library = libraries().find(handle);
    if (!library) return CUDA_ERROR_INVALID_HANDLE;
    *count = static_cast<unsigned>(library->in_order.size());
    return CUDA_SUCCESS;
}

template <typename Handle>
CUresult enumerate(Handle* out, unsigned capacity, uint64_t handle) {
    if (!out || capacity == 0) return CUDA_ERROR_INVALID_VALUE;
    const std::lock_guard lock(library_mutex());
    const Library* library = libraries().find(handle);
    if (!library) return CUDA_ERROR_INVALID_HANDLE;
    for (size_t i = 0; i < library->in_order.size() && i < capacity; ++i) {
        out[i] = reinterpret_cast<Handle>(library->in_order[i]);
    }
    return CUDA_SUCCESS;
}

}  // namespace
}  // namespace client

using namespace client;

namespace {

template <typename Handle>
uint64_t value(Handle handle) {
    return reinterpret_cast<uint64_t>(handle);
}

template <typename Handle>
CUresult load(Handle* out, const void* code, unsigned count, CUjit_option* options, void** values) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    JitOptions jit;
    if (CUresult error = jit.add(count, options, values)) return error;
    if (!code) return CUDA_ERROR_INVALID_VALUE;
    // How far the caller's memory goes is not known; the image itself says where it ends.
    const auto* start = static_cast<const std::byte*>(wire::unwrap_fatbin(code));
    const auto bytes = start ? wire::image_bytes(std::span(start, PTRDIFF_MAX)) : std::nullopt;
    if (!bytes) return CUDA_ERROR_INVALID_IMAGE;
    uint64_t handle = 0;
    constexpr bool kModule = std::is_same_v<Handle, CUmodule>;
    if (CUresult error = load_library(std::span(start, *bytes), jit, kModule, handle)) return error;
    *out = reinterpret_cast<Handle>(handle);
    return CUDA_SUCCESS;
}

template <typename Handle>
CUresult load_file(Handle* out, const char* path, unsigned count, CUjit_option* options, void** values) {
    std::string text;
    if (!path) return CUDA_ERROR_INVALID_VALUE;
    if (!read_image_file(path, text)) return CUDA_ERROR_FILE_NOT_FOUND;
    return load(out, text.c_str(), count, options, values);
}

template <typename Handle>
CUresult get_kernel(Handle* out, uint64_t library, const char* name) {
    uint64_t kernel = 0;
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult error = find_kernel(library, name, kernel)) return error;
    *out = reinterpret_cast<Handle>(kernel);
    return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

// Options for the whole library are hints about host code, which is not here.
CUresult cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* jitOptions,
                           void** jitOptionsValues, unsigned int numJitOptions,
                           CUlibraryOption* libraryOptions, void** libraryOptionValues,
                           unsigned int numLibraryOptions) {
    return load(library, code, numJitOptions, jitOptions, jitOptionsValues);
}
CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* fileName, CUjit_option* jitOptions,
                               void** jitOptionsValues, unsigned int numJitOptions,
                               CUlibraryOption* libraryOptions, void** libraryOptionValues,
                               unsigned int numLibraryOptions) {
    return load_file(library, fileName, numJitOptions, jitOptions, jitOptionsValues);
}
CUresult cuLibraryUnload(CUlibrary library) {
    return unload(value(library));
}

CUresult cuLibraryGetKernel(CUkernel* pKernel, CUlibrary library, const char* name) {
    return get_kernel(pKernel, value(library), name);
}
CUresult cuLibraryGetKernelCount(unsigned int* count, CUlibrary lib) {
    return count_kernels(count, value(lib));
}
CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned int numKernels, CUlibrary lib) {
    return enumerate(kernels, numKernels, value(lib));
}
CUresult cuLibraryGetModule(CUmodule* pMod, CUlibrary library) {
    if (!pMod) return CUDA_ERROR_INVALID_VALUE;
    if (!libraries().find(value(library))) return CUDA_ERROR_INVALID_HANDLE;
    *pMod = reinterpret_cast<CUmodule>(library);
    return CUDA_SUCCESS;
}
CUresult cuLibraryGetGlobal(CUdeviceptr* dptr, size_t* bytes, CUlibrary library, const char* name) {
    return find_global(value(library), name, dptr, bytes);
}

CUresult cuModuleLoad(CUmodule* module, const char* fname) {
    return load_file(module, fname, 0, nullptr, nullptr);
}
CUresult cuModuleLoadData(CUmodule* module, const void* image) {
    return load(module, image, 0, nullptr, nullptr);
}
CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int numOptions,
                            CUjit_option* options, void** optionValues) {
    return load(module, image, numOptions, options, optionValues);
}
CUresult cuModuleLoadFatBinary(CUmodule* module, const void* fatCubin) {
    return load(module, fatCubin, 0, nullptr, nullptr);
}
CUresult cuModuleUnload(CUmodule hmod) {
    return unload(value(hmod));
}
CUresult cuModuleGetFunction(CUfunction* hfunc, CUmodule hmod, const char* name) {
    return get_kernel(hfunc, value(hmod), name);
}
CUresult cuModuleGetFunctionCount(unsigned int* count, CUmodule mod) {
    return count_kernels(count, value(mod));
}
CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned int numFunctions, CUmodule mod) {
    return enumerate(functions, numFunctions, value(mod));
}
CUresult cuModuleGetGlobal_v2(CUdeviceptr* dptr, size_t* bytes, CUmodule hmod, const char* name) {
    return find_global(value(hmod), name, dptr, bytes);
}
CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
    if (!mode) return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_EAGER_LOADING;
    return CUDA_SUCCESS;
}
}
