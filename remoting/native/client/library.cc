#include "library.h"

#include <cstring>
#include <mutex>

#include "blake2b.h"
#include "call.h"
#include "context.h"
#include "front/library.h"
#include "front/platform.h"
#include "image.h"
#include "jit.h"
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

// False where another thread has removed it.
bool remove_library(uint64_t handle) {
    const std::lock_guard lock(library_mutex());
    Library* library = libraries().find(handle);
    if (!library) return false;
    for (uint64_t kernel : library->in_order) kernels().remove(kernel);
    for (const auto& globals : library->globals) {
        for (const auto& [name, place] : globals) forget_managed_variable(place.first);
    }
    return libraries().remove(handle);
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
CUresult ask_load(Call& call, wire::LoadHead& head, std::span<const std::byte> image,
                  const front::JitOptions& options, uint64_t handle, bool& need_image) {
    const auto numbers = to_wire(options);
    const iovec parts[3] = {
        {&head, sizeof head},
        {const_cast<wire::JitOption*>(numbers.data()), numbers.size() * sizeof(wire::JitOption)},
        {const_cast<std::byte*>(image.data()), head.inline_image ? image.size() : 0}};
    std::span<const std::byte> payload;
    const CUresult status = call.ask_parts(wire::kOpLoadLibrary, 0, parts, 3, payload);
    if (payload.empty()) return status ? status : CUDA_ERROR_UNKNOWN;
    wire::Reader reply(payload);
    wire::LoadReply answer{};
    if (!reply.take(answer) || !tell_logs(options, reply, answer.info_log_bytes, answer.error_log_bytes)) {
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

namespace {

// Loads `image` and enters its kernels; the handle of a library, or of a module of the current context.
uint64_t load(Call& call, std::span<const std::byte> image, const front::JitOptions& options, bool module) {
    const uint64_t handle = libraries().add([&](Library& library, uint64_t) {
        library.device = call.device();
        if (module) library.context = current_context_id();
    });
    front::require(handle != 0, CUDA_ERROR_OUT_OF_MEMORY);
    wire::LoadHead head{};
    head.library = handle;
    head.digest = wire::blake2b(image.data(), image.size());
    head.image_bytes = image.size();
    head.inline_image = image.size() <= wire::kInlineImage;
    head.option_count = static_cast<uint32_t>(options.numbers.size());
    head.info_log_bytes = room_of(options.info);
    head.error_log_bytes = room_of(options.error);
    bool need_image = false;
    CUresult result = ask_load(call, head, image, options, handle, need_image);
    if (result == CUDA_SUCCESS && need_image) {
        result = upload_image(call, head.digest, image);
        if (result == CUDA_SUCCESS) result = ask_load(call, head, image, options, handle, need_image);
        if (result == CUDA_SUCCESS && need_image) result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result != CUDA_SUCCESS) remove_library(handle);
    front::check(result);
    return handle;
}

// How far the program's memory goes may not be known; the image says where it ends. A file has no other image
// to point to, and its text ends in the NUL behind it.
std::span<const std::byte> bytes_of(const front::Image& image) {
    const void* whole = image.bytes ? image.data : wire::unwrap_fatbin(image.data);
    const auto* start = static_cast<const std::byte*>(whole);
    size_t most = image.bytes.value_or(PTRDIFF_MAX);
    if (image.bytes && !std::memchr(start, 0, most)) ++most;
    const auto bytes = start ? wire::image_bytes(std::span(start, most)) : std::nullopt;
    front::require(bytes.has_value(), CUDA_ERROR_INVALID_IMAGE);
    return {start, *bytes};
}

// A CUlibrary, or a CUmodule: that of a library is the library. Under the lock, which its end takes too.
template <class Handle>
Library& known(Handle handle) {
    Library* library = libraries().find(reinterpret_cast<uint64_t>(handle));
    const bool is_one = library && (std::is_same_v<Handle, CUmodule> || !library->context);
    front::require(is_one, CUDA_ERROR_INVALID_HANDLE);
    return *library;
}

bool is_of_library(CUmodule module) {
    const std::lock_guard lock(library_mutex());
    return known(module).context == 0;
}
bool is_of_library(CUlibrary) {
    return false;
}

// What was asked before, and has not ended with the context that it was asked in; else of 0 bytes.
template <class Handle>
front::Variable known_variable(Handle handle, std::string_view name, uint8_t device) {
    const std::lock_guard lock(library_mutex());
    const auto& globals = known(handle).globals[device];
    const auto found = globals.find(name);
    if (found == globals.end() || !MemoryMap::get().find(found->second.first)) return {};
    return {found->second.first, found->second.second};
}

front::Variable ask_variable(Call& call, uint64_t handle, std::string_view name) {
    wire::GlobalHead head{handle, static_cast<uint32_t>(name.size()), 0};
    const iovec parts[2] = {{&head, sizeof head}, {const_cast<char*>(name.data()), name.size()}};
    std::span<const std::byte> payload;
    front::check(call.ask_parts(wire::kOpGetGlobal, 0, parts, 2, payload));
    wire::Reader reply(payload);
    std::pair<uint64_t, uint64_t> place;
    front::require(reply.take(place.first) && reply.take(place.second), CUDA_ERROR_UNKNOWN);
    Memory memory;
    memory.base = memory.device_address = place.first;
    memory.bytes = place.second;
    memory.device = call.device();
    memory.global = true;
    MemoryMap::get().add(memory);
    const std::lock_guard lock(library_mutex());
    if (Library* library = libraries().find(handle)) library->globals[call.device()].emplace(name, place);
    return {place.first, place.second};
}

}  // namespace
}  // namespace client

namespace front::platform {

using namespace client;

template <class Handle>
Library<Handle>::Library(Handle handle) : handle_(handle) {
    const std::lock_guard lock(library_mutex());
    known(handle);
}

template <class Handle>
Handle Library<Handle>::load(const Image& image, const JitOptions& options) {
    constexpr bool kModule = std::is_same_v<Handle, CUmodule>;
    Call call;
    check(kModule ? call.begin() : call.begin_anew());
    return reinterpret_cast<Handle>(client::load(call, bytes_of(image), options, kModule));
}

template <class Handle>
void Library<Handle>::unload() {
    Call call;
    check(call.begin_without_context());
    require(!is_of_library(handle_), CUDA_ERROR_NOT_PERMITTED);
    const auto handle = reinterpret_cast<uint64_t>(handle_);
    require(remove_library(handle), CUDA_ERROR_INVALID_HANDLE);
    check(call.post(wire::kOpUnloadLibrary, 0, &handle, sizeof handle));
}

template <class Handle>
size_t Library<Handle>::kernel_count() const {
    const std::lock_guard lock(library_mutex());
    return known(handle_).in_order.size();
}

template <class Handle>
KernelIn<Handle> Library<Handle>::kernel(size_t index) const {
    const std::lock_guard lock(library_mutex());
    return reinterpret_cast<KernelIn<Handle>>(known(handle_).in_order.at(index));
}

template <class Handle>
KernelIn<Handle> Library<Handle>::kernel(const char* name) const {
    const std::lock_guard lock(library_mutex());
    const client::Library& library = known(handle_);
    const auto found = library.kernels.find(std::string_view(name));
    if (found != library.kernels.end()) return reinterpret_cast<KernelIn<Handle>>(found->second);
    const auto refused = library.refused.find(std::string_view(name));
    require(refused != library.refused.end(), CUDA_ERROR_NOT_FOUND);
    tell_user(refused->second);
    refuse(CUDA_ERROR_INVALID_PTX);
}

template <class Handle>
Variable Library<Handle>::variable(const char* name, bool managed) const {
    Call call;
    check(call.begin());
    require(std::strlen(name) <= wire::kMaxNameBytes, CUDA_ERROR_NOT_FOUND);
    Variable found = known_variable(handle_, name, call.device());
    if (!found.bytes) found = ask_variable(call, reinterpret_cast<uint64_t>(handle_), name);
    if (managed) check(share_variable(found.address, found.bytes));
    return found;
}

template <class Handle>
CUmodule Library<Handle>::module() const {
    return reinterpret_cast<CUmodule>(handle_);
}

template class Library<CUlibrary>;
template class Library<CUmodule>;

}  // namespace front::platform
