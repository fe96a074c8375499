#include "nvidia_libraries.h"

#include <dlfcn.h>

#include <cstring>

#include "cublas_messages.h"
#include "handlers.h"
#include "libraries/cublas/status.h"

namespace worker {
namespace {

constexpr size_t kWorkspace = 4 << 20;  // what cuBLAS takes by default on most GPUs

constexpr const char* kNames[] = {"cublas"};
static_assert(std::size(kNames) == kGkLibraries);

std::string file_of(uint16_t library, uint8_t major) {
    return std::string("lib") + kNames[library] + ".so." + std::to_string(major);
}

CUresult meaning(int status) {
    switch (status) {
        case cublas::kSuccess:
            return CUDA_SUCCESS;
        case cublas::kAllocFailed:
            return CUDA_ERROR_OUT_OF_MEMORY;
        case cublas::kInvalidValue:
            return CUDA_ERROR_INVALID_VALUE;
        case cublas::kNotSupported:
        case cublas::kArchMismatch:
            return CUDA_ERROR_NOT_SUPPORTED;
        default:
            return CUDA_ERROR_LAUNCH_FAILED;
    }
}

template <typename... Arguments>
int invoke_named(void* library, const char* name, Arguments... arguments) {
    const auto function = reinterpret_cast<int (*)(Arguments...)>(dlsym(library, name));
    return function ? function(arguments...) : static_cast<int>(cublas::kNotSupported);
}

// The memory of each operand is the lease's. What addresses lie in arrays on the device is, as those in a kernel's
// parameters, the GPU's page tables' business.
class InSlice final : public maths::Look {
  public:
    InSlice(const Context& context, const GkLibraryCall& head)
        : Look(head.wide != 0, head.scalars_on_device != 0), context_(context) {}
    bool accessible() const { return accessible_; }

  private:
    void operand(const maths::Operand& operand) override {
        const uint64_t bytes =
            operand.count == 0 ? operand.bytes : maths::product(operand.count, sizeof(uint64_t));
        const bool need_not_be = operand.bytes == 0 || (scalars_on_device() && operand.address == 0);
        accessible_ &= need_not_be || context_.accessible(operand.address, bytes);
    }

    const Context& context_;
    bool accessible_ = true;
};

// What the generated calls ask for (cublas_nvidia.inc).
struct Calling {
    void* library;
    void* handle;
    bool wide;
    bool scalars_on_device;

    const void* scalar(const maths::Scalar& scalar) const {
        uint64_t address;
        std::memcpy(&address, scalar.bytes, sizeof address);
        return scalars_on_device ? reinterpret_cast<const void*>(address) : scalar.bytes;
    }
    template <typename Signature, typename... Arguments>
    int invoke(const char* name, Arguments... arguments) const {
        const auto function = reinterpret_cast<Signature*>(dlsym(library, name));
        return function ? function(arguments...) : static_cast<int>(cublas::kNotSupported);
    }
};

// Memory of the slice like any other of the session, with which it goes.
CUresult own_workspace(Context& context, uint64_t& address) {
    if (address) return CUDA_SUCCESS;
    Worker& worker = context.worker();
    const uint64_t charge = MemoryLedger::charge_of(kWorkspace);
    if (!worker.room.take(context.session(), context.device(), charge)) return CUDA_ERROR_OUT_OF_MEMORY;
    CUdeviceptr memory = 0;
    const CUresult result = invoke(context.driver().cuMemAlloc_v2, &memory, kWorkspace);
    if (result != CUDA_SUCCESS) {
        worker.memory.give_back(context.device(), charge);
        return result;
    }
    worker.memory.add({memory, kWorkspace, charge, &context.session(), context.device()});
    address = memory;
    return CUDA_SUCCESS;
}

}  // namespace
}  // namespace worker

namespace maths::cublas {

static int invoke_function(uint16_t function, const void* arguments, const worker::Calling& call) {
    switch (function) {
#include "cublas_nvidia.inc"
        default:
            return ::cublas::kNotSupported;
    }
}

}  // namespace maths::cublas

namespace worker {

NvidiaLibraries& NvidiaLibraries::get() {
    static auto* const all = new NvidiaLibraries;
    return *all;
}

void* NvidiaLibraries::open(uint16_t library, uint8_t major) {
    const std::lock_guard lock(mutex_);
    const auto [place, is_new] = opened_.try_emplace({library, major}, nullptr);
    if (!is_new) return place->second;
    const std::string file = file_of(library, major);
    for (const std::string& folder : folders_) {
        if (!place->second) place->second = dlopen((folder + "/" + file).c_str(), RTLD_NOW | RTLD_LOCAL);
    }
    if (!place->second) place->second = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!place->second) log_line("library calls: " + std::string(dlerror()));
    return place->second;
}

CUresult NvidiaLibraries::look(Session& session, uint16_t library, uint8_t major) {
    if (open(library, major)) return CUDA_SUCCESS;
    session.notices.add(wire::NoticeKind::lines,
                        "this GPU server has no " + file_of(library, major) +
                            ": its admin installs NVIDIA's wheel of it, and names the folder in worker_libraries\n");
    return CUDA_ERROR_NOT_SUPPORTED;
}

std::shared_ptr<NvidiaLibraries::Handle> NvidiaLibraries::handle_of(Context& context, const GkLibraryCall& head,
                                                                    CUresult& result) {
    void* const library = open(head.library, head.major);
    result = library ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    if (!library) return nullptr;
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Handle>& handle =
        handles_[{&context.session(), context.device(), head.library, head.major}];
    if (!handle) handle = std::make_shared<Handle>(library);
    return handle;
}

// As the program has set its own. Without a workspace of the program's the library works in one that the slice is
// charged for, and takes none of its own.
CUresult NvidiaLibraries::prepare(Context& context, Handle& handle, CUstream stream, const GkLibraryCall& head) {
    int status = cublas::kSuccess;
    if (!handle.handle) status = invoke_named(handle.library, "cublasCreate_v2", &handle.handle);
    if (status != cublas::kSuccess) return meaning(status);
    uint64_t workspace = head.workspace, bytes = head.workspace_bytes;
    if (workspace == 0 || !context.accessible(workspace, bytes)) {
        if (CUresult error = own_workspace(context, handle.workspace)) return error;
        workspace = handle.workspace, bytes = kWorkspace;
    }
    const auto set = [&](const char* name, auto... values) {
        if (status == cublas::kSuccess) status = invoke_named(handle.library, name, handle.handle, values...);
    };
    set("cublasSetStream_v2", stream);
    set("cublasSetWorkspace_v2", reinterpret_cast<void*>(workspace), static_cast<size_t>(bytes));
    set("cublasSetPointerMode_v2", static_cast<int>(head.scalars_on_device));
    set("cublasSetMathMode", static_cast<int>(head.math));
    set("cublasSetAtomicsMode", static_cast<int>(head.atomics));
    return meaning(status);
}

CUresult NvidiaLibraries::call(Context& context, CUstream stream, const GkLibraryCall& head, void* arguments,
                               size_t bytes) {
    InSlice look(context, head);
    if (maths::cublas::look_at(head.function, arguments, bytes, look) != maths::Fit::fits) return kMalformed;
    if (!look.accessible()) return CUDA_ERROR_INVALID_VALUE;
    CUresult result;
    const auto handle = handle_of(context, head, result);
    if (!handle) return result;
    const std::lock_guard lock(handle->mutex);
    if (CUresult error = prepare(context, *handle, stream, head)) return error;
    const Calling call{handle->library, handle->handle, head.wide != 0, head.scalars_on_device != 0};
    return meaning(maths::cublas::invoke_function(head.function, arguments, call));
}

void NvidiaLibraries::forget(const Session& session, uint8_t device) {
    std::vector<std::shared_ptr<Handle>> ended;
    {
        const std::lock_guard lock(mutex_);
        std::erase_if(handles_, [&](auto& entry) {
            const bool its_own = std::get<0>(entry.first) == &session && std::get<1>(entry.first) == device;
            if (its_own) ended.push_back(std::move(entry.second));
            return its_own;
        });
    }
    for (const auto& handle : ended) {
        if (handle->handle) invoke_named(handle->library, "cublasDestroy_v2", handle->handle);
    }
}

}  // namespace worker
