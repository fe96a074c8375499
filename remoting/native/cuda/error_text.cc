// Names and texts of CUresult. The names come from cuda.h; the texts are ours where the name alone does not
// say what a person needs, and otherwise the name in words.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>
#include <string>

#include "cuda_abi.h"

namespace {

struct Error {
    const char* name;
    std::string text;
};

const char* special(int value) {
    switch (value) {
        case CUDA_SUCCESS:
            return "no error";
        case CUDA_ERROR_INVALID_VALUE:
            return "invalid argument";
        case CUDA_ERROR_NOT_INITIALIZED:
            return "initialization error";
        case CUDA_ERROR_DEINITIALIZED:
            return "driver shutting down";
        case CUDA_ERROR_NO_DEVICE:
            return "no CUDA-capable device is detected";
        case CUDA_ERROR_INVALID_DEVICE:
            return "invalid device ordinal";
        case CUDA_ERROR_INVALID_IMAGE:
            return "device kernel image is invalid";
        case CUDA_ERROR_INVALID_CONTEXT:
            return "invalid device context";
        case CUDA_ERROR_INVALID_HANDLE:
            return "invalid resource handle";
        case CUDA_ERROR_NOT_FOUND:
            return "named symbol not found";
        case CUDA_ERROR_NOT_READY:
            return "device not ready";
        case CUDA_ERROR_NOT_SUPPORTED:
            return "operation not supported";
        case CUDA_ERROR_ILLEGAL_ADDRESS:
            return "an illegal memory access was encountered";
        case CUDA_ERROR_MISALIGNED_ADDRESS:
            return "misaligned address";
        case CUDA_ERROR_ILLEGAL_INSTRUCTION:
            return "an illegal instruction was encountered";
        case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
            return "too many resources requested for launch";
        case CUDA_ERROR_LAUNCH_TIMEOUT:
            return "the launch timed out and was terminated";
        case CUDA_ERROR_LAUNCH_FAILED:
            return "unspecified launch failure";
        case CUDA_ERROR_ASSERT:
            return "device-side assert triggered";
        case CUDA_ERROR_INVALID_PTX:
            return "a PTX JIT compilation failed";
        case CUDA_ERROR_NO_BINARY_FOR_GPU:
            return "no kernel image is available for execution on the device";
        case CUDA_ERROR_DEVICE_UNAVAILABLE:
            return "CUDA-capable device is busy or unavailable";
        case CUDA_ERROR_SYSTEM_NOT_READY:
            return "system not yet initialized";
        case CUDA_ERROR_UNKNOWN:
            return "unknown error";
        default:
            return nullptr;
    }
}

std::string in_words(const char* name) {
    std::string text = std::strncmp(name, "CUDA_ERROR_", 11) == 0 ? name + 11 : name;
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return c == '_' ? ' ' : static_cast<char>(std::tolower(c)); });
    return text;
}

// Never destroyed: libraries ask for texts while the process exits.
const std::map<int, Error>& errors() {
    static const auto* table = new std::map<int, Error>{
#define ERROR(name, value) {value, {#name, special(value) ? std::string(special(value)) : in_words(#name)}},
#include "error_names.inc"
#undef ERROR
    };
    return *table;
}

CUresult answer(const char* text, const char** out) {
    if (!out) return CUDA_ERROR_INVALID_VALUE;
    *out = text;
    return text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

extern "C" {

const char* gk_error_name(CUresult error) {
    auto found = errors().find(error);
    return found == errors().end() ? nullptr : found->second.name;
}

const char* gk_error_string(CUresult error) {
    auto found = errors().find(error);
    return found == errors().end() ? nullptr : found->second.text.c_str();
}

CUresult cuGetErrorName(CUresult error, const char** pStr) {
    return answer(gk_error_name(error), pStr);
}
CUresult cuGetErrorString(CUresult error, const char** pStr) {
    return answer(gk_error_string(error), pStr);
}
}
