#include "end.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <list>
#include <mutex>

#include "blas.h"
#include "call.h"
#include "cublasLt_cpu.h"
#include "cublas_cpu.h"
#include "cufft_cpu.h"
#include "curand_cpu.h"
#include "cusolver_cpu.h"
#include "dnn/dnn_cpu.h"
#include "messages.h"
#include "sparse/sparse_cpu.h"

namespace maths {
namespace {

// Each operand is looked up in the slice, at the moment when the call runs. Arrays of addresses are copied
// first: what is looked up is what is used, whatever is written to the slice meanwhile.
class LookUp final : public Look {
  public:
    LookUp(const GkLibraryCall& head, const Work& work)
        : Look(head.wide != 0, head.scalars_on_device != 0), work_(work) {}

    GkEnd end() override { return {.threads = std::max(1u, work_.threads()), .zero = 0}; }

  private:
    void require(const char* name, uint64_t address, uint64_t bytes, uint32_t align, bool written) const {
        if (address % align != 0) {
            work_.fail(CUDA_ERROR_MISALIGNED_ADDRESS,
                       std::string(name) + " is at " + hex(address) + ", which is no place for its elements");
        }
        if (!work_.reach(address, bytes, written)) {
            work_.fail(CUDA_ERROR_ILLEGAL_ADDRESS, std::string(name) + " has " + std::to_string(bytes) +
                                                       " bytes at " + hex(address) +
                                                       ", which are not all memory of the device");
        }
    }

    static std::string hex(uint64_t address) {
        char text[24];
        std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
        return text;
    }

    void operand(const Operand& operand) override {
        if (operand.bytes == 0) {
            operand.address = 0;  // it need not be there, and nobody looks
        } else if (operand.count == 0) {
            require(operand.name, operand.address, operand.bytes, operand.align,
                    operand.access != Access::kRead);
        } else {
            operand.address = copied(operand);
        }
    }

    uint64_t copied(const Operand& operand) {
        const uint64_t bytes = operand.count * sizeof(uint64_t);
        require(operand.name, operand.address, bytes, alignof(uint64_t), false);
        std::vector<uint64_t>& own = arrays_.emplace_back(operand.count);
        std::memcpy(own.data(), at<const void>(operand.address), bytes);
        for (const uint64_t address : own) {
            require(operand.name, address, operand.bytes, operand.align, operand.access != Access::kRead);
        }
        return reinterpret_cast<uint64_t>(own.data());
    }

    bool fetch(const char* name, Scalar& scalar, Type type) override {
        uint64_t address;
        std::memcpy(&address, scalar.bytes, sizeof address);
        require(name, address, bytes_of(type), align_of(type), false);
        scalar = {};
        std::memcpy(scalar.bytes, at<const void>(address), bytes_of(type));
        return true;
    }

    const Work& work_;
    std::list<std::vector<uint64_t>> arrays_;
};

// By GkLibrary.
constexpr CUresult (*kRun[])(uint16_t, void*, Work&) = {
    cublas::run_function,   cublasLt::run_function, cusolver::run_function, cudnn::run_function,
    cusparse::run_function, cufft::run_function,    curand::run_function,
};
static_assert(std::size(kRun) == kGkLibraries);

CUresult run(const void* call, size_t bytes, const GkSlice& slice) {
    GkLibraryCall head;
    alignas(16) std::array<std::byte, kGkMostCallBytes> arguments;
    if (bytes < sizeof head || bytes > sizeof head + arguments.size()) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(&head, call, sizeof head);
    bytes -= sizeof head;
    std::memcpy(arguments.data(), static_cast<const std::byte*>(call) + sizeof head, bytes);
    const Library* const library = library_of(head.library);
    const char* const name = library ? library->name_of(head.function) : nullptr;
    if (!name) return CUDA_ERROR_INVALID_VALUE;
    Work work(slice, name, head.wide != 0);
    LookUp look(head, work);
    const Fit fit = library->look_at(head.function, arguments.data(), bytes, look);
    // Its library has said so to the program, unless it is another's threads that it was looked at for.
    if (!look.why().empty())
        work.fail(fit == Fit::invalid ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED, look.why());
    switch (fit) {
        case Fit::invalid:
            return CUDA_ERROR_INVALID_VALUE;
        case Fit::unsupported:
            return CUDA_ERROR_NOT_SUPPORTED;
        default:
            return kRun[head.library](head.function, arguments.data(), work);
    }
}

void use_threads(unsigned threads) {
    static std::once_flag once;
    std::call_once(once, [threads] { scipy_openblas_set_num_threads64_(static_cast<int>(threads)); });
}

}  // namespace
}  // namespace maths

extern "C" __attribute__((visibility("default"))) int gk_cpu_end(const void* call, size_t bytes,
                                                                 const GkSlice* slice) {
    using namespace maths;
    use_threads(slice->threads);
    try {
        return run(call, bytes, *slice);
    } catch (const Fault& fault) {
        slice->tell(slice->user, fault.line.c_str());
        return fault.result;
    } catch (const PutBack&) {
        return kGkPutBack;
    } catch (const Stopped&) {
        return CUDA_SUCCESS;
    } catch (const std::exception&) {  // no memory, or a length that no memory has
        slice->tell(slice->user, "a library's call found no memory in the process, and may be done in part");
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
}
