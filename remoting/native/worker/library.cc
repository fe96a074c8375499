// Loading images: by digest from the cache, inline, or uploaded; and what a client is told of them.
#include <algorithm>
#include <cstring>
#include <optional>

#include "blake2b.h"
#include "compiler.h"
#include "fatbin.h"
#include "handlers.h"
#include "image.h"
#include "image_variables.h"
#include "jit.h"
#include "load_cost.h"

namespace worker {
namespace {

// What helps where a module finds no room.
constexpr const char* kFewer = "Load smaller or fewer modules";

CUresult describe_kernel(Context& context, CUkernel handle, LoadedKernel& loaded, wire::Writer& rows) {
    const Driver& driver = context.driver();
    const char* name = nullptr;
    if (CUresult error = invoke(driver.cuKernelGetName, &name, handle)) return error;
    loaded.handle = handle;
    std::vector<wire::ParamRow> params;
    for (size_t i = 0; i < wire::kMaxParamBytes; ++i) {
        size_t offset = 0, bytes = 0;
        const CUresult result = invoke(driver.cuKernelGetParamInfo, handle, i, &offset, &bytes);
        if (result == CUDA_ERROR_INVALID_VALUE) break;
        if (result) return result;
        if (offset > wire::kMaxParamBytes || bytes > wire::kMaxParamBytes - offset)
            return CUDA_ERROR_INVALID_IMAGE;
        params.push_back({static_cast<uint32_t>(offset), static_cast<uint32_t>(bytes)});
        loaded.param_bytes = std::max(loaded.param_bytes, static_cast<uint32_t>(offset + bytes));
    }
    wire::KernelRow row{};
    row.name_bytes = static_cast<uint32_t>(std::min<size_t>(std::strlen(name), wire::kMaxNameBytes));
    row.param_count = static_cast<uint32_t>(params.size());
    for (uint32_t i = 0; i < wire::kFunctionAttributes; ++i) {
        const CUdevice device = context.worker().devices[context.device()].handle;
        if (invoke(driver.cuKernelGetAttribute, &row.attributes[i], static_cast<CUfunction_attribute>(i),
                   handle, device) != CUDA_SUCCESS) {
            row.attributes[i] = INT32_MIN;
        }
    }
    const int frame = row.attributes[CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES];
    loaded.local_bytes = static_cast<uint32_t>(std::max(frame, 0));
    rows.put(row);
    rows.put_bytes(name, row.name_bytes);
    for (const auto& param : params) rows.put(param);
    return CUDA_SUCCESS;
}

CUresult describe(Context& context, LoadedLibrary& library, wire::Writer& rows) {
    const Driver& driver = context.driver();
    unsigned count = 0;
    if (CUresult error = invoke(driver.cuLibraryGetKernelCount, &count, library.handle)) return error;
    std::vector<CUkernel> kernels(count);
    if (count > 0) {
        if (CUresult error =
                invoke(driver.cuLibraryEnumerateKernels, kernels.data(), count, library.handle)) {
            return error;
        }
    }
    library.kernels.resize(count);
    for (unsigned i = 0; i < count; ++i) {
        if (CUresult error = describe_kernel(context, kernels[i], library.kernels[i], rows)) return error;
        if (rows.size() > wire::kMaxReply / 2) return CUDA_ERROR_INVALID_IMAGE;
    }
    return CUDA_SUCCESS;
}

// The kernels that a software GPU refuses; false when they are more than a reply has room for.
bool describe_refused(Context& context, const LoadedLibrary& library, wire::Writer& rows, uint32_t& count) {
    context.session().software.each_refused_kernel(
        library.handle, [&](std::string_view name, std::string_view why) {
            if (name.size() > wire::kMaxNameBytes || rows.size() > wire::kMaxReply / 2) return;
            why = why.substr(0, wire::kMaxRefusalBytes);
            rows.put(wire::RefusedRow{static_cast<uint32_t>(name.size()), static_cast<uint32_t>(why.size())});
            rows.put_text(name);
            rows.put_text(why);
            ++count;
        });
    return rows.size() <= wire::kMaxReply / 2;
}

// Waits in line for what loading the image takes of this machine.
std::unique_ptr<HostMemory::Room> room_to_load(Context& context, const std::string& image) {
    using Room = HostMemory::Room;
    Worker& worker = context.worker();
    const Session& session = context.session();
    const auto goes_on = [&] { return !session.ended(); };
    const auto bytes = std::as_bytes(std::span(image));
    uint64_t cost;
    {
        auto unpacking = std::make_unique<Room>(worker.host_memory, unpacking_cost(bytes), goes_on);
        if (!*unpacking) return unpacking;
        cost = load_cost(bytes, worker.driver.software);
    }
    return std::make_unique<Room>(worker.host_memory, cost, goes_on);
}

bool is_text(const std::string& image) {
    return !image.starts_with("\177ELF") && !wire::is_fatbin(std::as_bytes(std::span(image)));
}

std::optional<uint64_t> variables_of(const std::string& image, bool software) {
    return variable_bytes(std::as_bytes(std::span(image)), software);
}

CUresult refuse_image(Session& session, const char* why) {
    session.notices.add(wire::NoticeKind::lines, std::string("an image cannot be loaded: ") + why);
    return CUDA_ERROR_INVALID_IMAGE;
}

CUresult unreadable(Session& session) {
    return refuse_image(session,
                        "how much memory its variables take cannot be told for certain; compile it to "
                        "machine code for this GPU");
}

// What is loaded for `image`, and the bytes of its variables, if they are known. Of a text only the driver's
// compiler knows them: what it makes of the text is looked at, and is what is loaded. The software GPU reads
// a text as we do, runs nothing else, and says itself what is wrong with what it refuses.
CUresult prepare(LoadedLibrary& library, Session& session, ImageCache::Image& image,
                 std::optional<uint64_t>& known) {
    const Driver& driver = library.worker.driver;
    known = variables_of(*image, driver.software);
    if (driver.software) return CUDA_SUCCESS;
    if (!is_text(*image)) return known ? CUDA_SUCCESS : unreadable(session);
    if (known.value_or(0) > library.worker.memory.limit(library.device)) return CUDA_ERROR_OUT_OF_MEMORY;
    std::string cubin;
    const CUresult result = compile_text(driver, *image, *library.options, cubin);
    if (result == CUDA_SUCCESS) {
        known = variables_of(cubin, false);
        image = std::make_shared<const std::string>(std::move(cubin));
    } else if (result != CUDA_ERROR_NOT_SUPPORTED) {
        return result;
    }
    return known ? CUDA_SUCCESS : unreadable(session);
}

// Takes from the slice what the image and its variables need, then loads it.
CUresult load_image(Session& session, LoadedLibrary& library, const ImageCache::Image& image,
                    const std::shared_ptr<JitOptions>& options) {
    library.image = image;
    library.options = options;
    ImageCache::Image prepared = image;
    std::optional<uint64_t> bytes;
    if (CUresult error = prepare(library, session, prepared, bytes)) return error;
    const uint64_t variables = MemoryLedger::charge_of(bytes.value_or(0));
    const uint64_t charge = MemoryLedger::charge_of(prepared->size());
    if (variables > UINT64_MAX - charge ||
        !library.worker.room.take(session, library.device, charge + variables)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    library.charged = charge + variables;
    library.prepared = prepared;
    // The compiler has had the options, and written its log.
    const unsigned count = prepared == image ? options->count() : 0;
    const CUresult result =
        invoke(library.worker.driver.cuLibraryLoadData, &library.handle,
               static_cast<const void*>(prepared->data()), options->names(), options->values(), count,
               static_cast<CUlibraryOption*>(nullptr), static_cast<void**>(nullptr), 0u);
    if (result != CUDA_SUCCESS) library.handle = nullptr;
    // What this worker could not read, and the software GPU can.
    return result == CUDA_SUCCESS && !bytes ? unreadable(session) : result;
}

CUresult load(Context& context, const wire::LoadHead& head, const ImageCache::Image& image,
              const std::shared_ptr<JitOptions>& options, wire::Writer& rows, wire::LoadReply& answer) {
    const auto library = std::make_shared<LoadedLibrary>(context.worker(), context.device());
    if (CUresult error = load_image(context.session(), *library, image, options)) return error;
    if (CUresult error = describe(context, *library, rows)) return error;
    if (!describe_refused(context, *library, rows, answer.refused_count)) return CUDA_ERROR_INVALID_IMAGE;
    answer.kernel_count = static_cast<uint32_t>(library->kernels.size());
    return context.session().libraries.add(head.library, library) ? CUDA_SUCCESS : kMalformed;
}

// The same, once there is room for what it takes.
CUresult load_in_room(Context& context, const wire::LoadHead& head, const ImageCache::Image& image,
                      const std::shared_ptr<JitOptions>& options, wire::Writer& rows,
                      wire::LoadReply& answer) {
    if (unpacks_to_too_much(std::as_bytes(std::span(*image))))
        return refuse_image(context.session(), "it says that it unpacks to more than 512 MiB");
    const auto room = room_to_load(context, *image);
    if (!*room) return context.session().refuse(room->refusal("loading this module", kFewer));
    return load(context, head, image, options, rows, answer);
}

// The image that the client means: from the frame, which proves its digest, or from the cache.
bool find_image(Context& context, const wire::LoadHead& head, wire::Reader& payload,
                ImageCache::Image& image) {
    std::span<const std::byte> bytes;
    if (head.inline_image > 1 || head.image_bytes > wire::kMaxImage) return false;
    if (!payload.take_bytes(head.inline_image ? head.image_bytes : 0, bytes) || !payload.finished())
        return false;
    image = context.worker().images.find(head.digest);
    if (!head.inline_image) return true;
    if (wire::blake2b(bytes.data(), bytes.size()) != head.digest) return false;
    if (!image) {
        std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        image = context.worker().images.add(head.digest, std::move(text));
    }
    return true;
}

}  // namespace

CUresult handle_load_library(Context& context, uint8_t, wire::Reader& payload, wire::Writer& reply) {
    wire::LoadHead head;
    const auto jit = std::make_shared<JitOptions>();
    JitOptions& options = *jit;
    ImageCache::Image image;
    if (!payload.take(head) ||
        !options.take(payload, head.option_count, head.info_log_bytes, head.error_log_bytes) ||
        !find_image(context, head, payload, image) ||
        !context.session().libraries.may_add(head.library, wire::HandleKind::library)) {
        return kMalformed;
    }
    wire::LoadReply answer{};
    wire::Writer rows;
    CUresult result = CUDA_SUCCESS;
    if (!image) {
        answer.need_image = 1;
    } else if (options.refused()) {
        result = context.session().refuse_option(*options.refused());
    } else if (wire::image_bytes(std::as_bytes(std::span(image->data(), image->size() + 1))).value_or(0) <
                   image->size() &&
               image->size() != 0) {
        result = CUDA_ERROR_INVALID_IMAGE;
    } else {
        result = load_in_room(context, head, image, jit, rows, answer);
    }
    if (result == kMalformed) return result;
    answer.info_log_bytes = static_cast<uint32_t>(options.info_log().size());
    answer.error_log_bytes = static_cast<uint32_t>(options.error_log().size());
    reply.put(answer);
    reply.put_text(options.info_log());
    reply.put_text(options.error_log());
    if (result == CUDA_SUCCESS) reply.put_bytes(rows.bytes().data(), rows.size());
    return result;
}

CUresult handle_upload_image(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    wire::UploadHead head;
    if (!payload.take(head) || head.total == 0 || head.total > wire::kMaxImage) return kMalformed;
    const auto upload = context.session().upload(head.digest, head.total);
    if (!upload) return kMalformed;
    ImageCache& images = context.worker().images;
    if (context.worker().host_memory.level(payload.rest().size()) == HostMemory::Level::full)
        upload->give_up();
    std::string bytes;
    const auto piece = upload->append(images, head.offset, head.total, payload.rest(), bytes);
    if (piece == Upload::Piece::malformed) return kMalformed;
    if (piece == Upload::Piece::kept) return CUDA_SUCCESS;
    context.session().end_upload(head.digest);
    if (piece == Upload::Piece::no_room) return CUDA_ERROR_OUT_OF_MEMORY;
    if (wire::blake2b(bytes.data(), bytes.size()) != head.digest) return kMalformed;
    images.add(head.digest, std::move(bytes));
    return CUDA_SUCCESS;
}

CUresult handle_unload_library(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    uint64_t handle;
    if (!payload.take(handle) || !payload.finished()) return kMalformed;
    return context.session().unload(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// The client's context has begun a new life, in which variables have their first values again.
CUresult handle_reset_libraries(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    Session& session = context.session();
    session.own_work.wait(context.device());
    while (!payload.finished()) {
        uint64_t handle;
        std::shared_ptr<LoadedLibrary> before;
        if (!payload.take(handle)) return kMalformed;
        if (!session.libraries.find(handle, before)) return CUDA_ERROR_INVALID_HANDLE;
        const ImageCache::Image image = before->image;
        const auto options = before->options;
        const size_t kernels = before->kernels.size();
        const uint8_t device = before->device;
        // Their memory is not taken twice.
        before.reset();
        session.unload(handle);
        const auto fresh = std::make_shared<LoadedLibrary>(context.worker(), device);
        const auto room = room_to_load(context, *image);
        if (!*room) return session.refuse(room->refusal("loading this module anew", kFewer));
        if (CUresult error = load_image(session, *fresh, image, options)) return error;
        wire::Writer rows;
        // One image has one order of kernels, and so the client's numbers stay right.
        if (CUresult error = describe(context, *fresh, rows)) return error;
        if (fresh->kernels.size() != kernels || !session.libraries.add(handle, fresh))
            return CUDA_ERROR_INVALID_IMAGE;
    }
    return CUDA_SUCCESS;
}

CUresult handle_get_global(Context& context, uint8_t, wire::Reader& payload, wire::Writer& reply) {
    wire::GlobalHead head;
    std::string_view name;
    if (!payload.take(head) || head.name_bytes > wire::kMaxNameBytes ||
        !payload.take_text(head.name_bytes, name) || !payload.finished()) {
        return kMalformed;
    }
    std::shared_ptr<LoadedLibrary> library;
    if (!context.session().libraries.find(head.library, library)) return CUDA_ERROR_INVALID_HANDLE;
    CUdeviceptr address = 0;
    size_t bytes = 0;
    const std::string text(name);
    if (CUresult error =
            invoke(context.driver().cuLibraryGetGlobal, &address, &bytes, library->handle, text.c_str())) {
        return error;
    }
    {
        // Asked calls of several lanes run at the same time.
        const std::lock_guard lock(context.worker().globals_mutex);
        auto& known = library->globals;
        if (std::find(known.begin(), known.end(), address) == known.end()) {
            context.worker().memory.add({address, bytes, 0, &context.session(), context.device()});
            known.push_back(address);
        }
    }
    reply.put(static_cast<uint64_t>(address));
    reply.put(static_cast<uint64_t>(bytes));
    return CUDA_SUCCESS;
}

}  // namespace worker
