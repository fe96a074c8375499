// Calls of maths libraries: looked at, and done by the software GPU's driver or by NVIDIA's library.
#include <array>
#include <cstring>

#include "cublasLt_messages.h"
#include "handlers.h"
#include "libraries/call.h"
#include "libraries/messages.h"
#include "nvidia_generators.h"
#include "nvidia_libraries.h"
#include "nvidia_transforms.h"

namespace worker {
namespace {

using Arguments = std::array<std::byte, kGkMostCallBytes>;

// A client of ours has looked at this before it sent the call. `to`: the arguments, aligned.
bool is_sound(const GkLibraryCall& head, std::span<const std::byte> arguments, Arguments& to) {
    const maths::Library* const library = maths::library_of(head.library);
    if (!library || arguments.size() > to.size()) return false;
    if (head.wide > 1 || head.scalars_on_device > 1) return false;
    const bool has_pointer_mode =
        head.library == kGkCublas || head.library == kGkCublasLt || head.library == kGkCusparse;
    if (head.scalars_on_device != 0 && !has_pointer_mode) return false;
    std::memcpy(to.data(), arguments.data(), arguments.size());
    maths::SizesAlone look(head.wide != 0, head.scalars_on_device != 0);
    return library->look_at(head.function, to.data(), arguments.size(), look) == maths::Fit::fits;
}

// The library works for the context's device.
bool is_of_device(const Context& context, uint64_t stream) {
    OnDevice<CUstream> found;
    return !context.session().streams.find(stream, found) || found.device == context.device();
}

CUresult forget(Context& context, const GkLibraryCall& head, wire::Reader& payload) {
    uint64_t number;
    const bool keeps = head.library == kGkCufft || head.library == kGkCurand;
    if (!keeps || !payload.take(number) || !payload.finished()) return kMalformed;
    if (context.driver().library_call) return CUDA_SUCCESS;  // nothing is kept there
    if (head.library == kGkCurand) return NvidiaGenerators::get().end(context, head.major, number);
    return NvidiaTransforms::get().end(context, head.major, number);
}

CUresult look(Context& context, const wire::LibraryLook& message, GkEnd& end) {
    const auto library = static_cast<uint16_t>(message.library);
    const auto major = static_cast<uint8_t>(message.major);
    const GkLibraryCallFunction give = context.driver().library_call;
    if (!give) return NvidiaLibraries::get().look(context.session(), library, major);
    GkLook look{.head = {}, .end = &end};
    look.head.library = library, look.head.major = major, look.head.function = kGkLook;
    return static_cast<CUresult>(give(nullptr, &look, sizeof look));
}

// Whether one call would be done, which a program asks before it makes it.
CUresult ask(Context& context, const wire::LibraryLook& message, wire::Reader& payload,
             uint64_t& workspace_bytes) {
    GkLibraryCall head;
    alignas(8) Arguments arguments;
    if (!payload.take(head) || !is_sound(head, payload.rest(), arguments)) return kMalformed;
    const bool is_known = head.library == kGkCublasLt && head.function == maths::cublasLt::k_cublasLtMatmul;
    if (!is_known || head.library != message.library || head.major != message.major) return kMalformed;
    if (context.driver().library_call) return CUDA_SUCCESS;  // its library knows what is not done
    return NvidiaLibraries::get().ask(context, head, arguments.data(), workspace_bytes);
}

}  // namespace

CUresult handle_library_call(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    uint64_t handle;
    if (!payload.take(handle)) return kMalformed;
    const std::span<const std::byte> call = payload.rest();
    GkLibraryCall head;
    alignas(8) Arguments arguments;
    if (!payload.take(head)) return kMalformed;
    if (head.function == kGkForget) return forget(context, head, payload);
    if (!is_sound(head, payload.rest(), arguments)) return kMalformed;
    CUstream stream;
    if (!is_of_device(context, handle) || !context.stream(handle, stream)) return CUDA_ERROR_INVALID_HANDLE;
    if (const GkLibraryCallFunction give = context.driver().library_call) {
        return static_cast<CUresult>(give(stream, call.data(), call.size()));
    }
    return NvidiaLibraries::get().call(context, stream, head, arguments.data(), payload.rest().size());
}

CUresult handle_library_look(Context& context, uint8_t, wire::Reader& payload, wire::Writer& reply) {
    wire::LibraryLook message;
    if (!payload.take(message)) return kMalformed;
    if (message.library >= kGkLibraries || message.major > UINT8_MAX) return CUDA_ERROR_NOT_SUPPORTED;
    GkEnd end{};
    if (payload.finished()) {
        const CUresult result = look(context, message, end);
        if (result == CUDA_SUCCESS) reply.put(end);
        return result;
    }
    uint64_t workspace_bytes = 0;
    const CUresult result = ask(context, message, payload, workspace_bytes);
    if (result == CUDA_SUCCESS) reply.put(workspace_bytes);
    return result;
}

}  // namespace worker
