#include "fatbinary.h"

#include <dlfcn.h>

#include "forward.h"
#include "image_texts.h"
#include "log.h"

namespace cudart {
namespace {

constexpr int kWrapperMagic = 0x466243b1;
constexpr int kLinkedVersion = 2;

// crt/fatbinary_section.h: what a program registers. From version 2 on there is a list of the images that the
// program was linked from (nvcc -rdc=true), ended by a null, for a device that has to link them itself.
struct Wrapper {
    int magic, version;
    const void* data;
    const void* const* linked_from;
};

// A list longer than this is damage.
constexpr int kMaxImages = 4096;
// An image larger than this is damage too.
constexpr unsigned long long kMaxImageBytes = 512ull << 20;

// Byte by byte: what is no fatbin may be shorter than a magic number.
bool is_fatbin(const void* image) {
    static constexpr unsigned char kMagic[] = {0x50, 0xed, 0x55, 0xba};
    const auto* bytes = static_cast<const unsigned char*>(image);
    for (size_t i = 0; i < sizeof kMagic; ++i) {
        if (bytes[i] != kMagic[i]) return false;
    }
    return true;
}

CUresult add_image(const Driver& driver, CUlinkState link, const void* image) {
    if (!is_fatbin(image)) return CUDA_ERROR_INVALID_IMAGE;
    // The image says how long it is.
    struct {
        unsigned magic;
        unsigned short version, header_bytes;
        unsigned long long bytes;
    } header;
    std::memcpy(&header, image, sizeof header);
    if (header.header_bytes < sizeof header || header.bytes > kMaxImageBytes) return CUDA_ERROR_INVALID_IMAGE;
    return invoke(driver.cuLinkAddData_v2, link, CU_JIT_INPUT_FATBINARY, const_cast<void*>(image),
                  header.header_bytes + header.bytes, "", 0u, nullptr, nullptr);
}

// Takes the driver's reasons, so that a refusal that is made good is told to nobody.
class ErrorLog {
  public:
    unsigned count() const { return 2; }
    CUjit_option* options() { return options_; }
    void** values() { return values_; }
    std::string text() const { return text_; }

  private:
    char text_[1024] = "";
    CUjit_option options_[2] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void* values_[2] = {text_, reinterpret_cast<void*>(sizeof text_)};
};

CUresult link_images(const Driver& driver, const void* const* images, CUlibrary& library) {
    CUlinkState link;
    ErrorLog log;
    CUresult result = invoke(driver.cuLinkCreate_v2, log.count(), log.options(), log.values(), &link);
    if (result != CUDA_SUCCESS) return result;
    for (int i = 0; result == CUDA_SUCCESS && images[i] && i < kMaxImages; ++i) {
        result = add_image(driver, link, images[i]);
        // One that has nothing for this device, as the device runtime's own often: what needs it will be
        // missed.
        if (result == CUDA_ERROR_NO_BINARY_FOR_GPU) result = CUDA_SUCCESS;
    }
    void* image = nullptr;
    size_t bytes = 0;
    if (result == CUDA_SUCCESS) result = invoke(driver.cuLinkComplete, link, &image, &bytes);
    if (result == CUDA_SUCCESS) {
        result =
            invoke(driver.cuLibraryLoadData, &library, image, nullptr, nullptr, 0u, nullptr, nullptr, 0u);
    }
    invoke(driver.cuLinkDestroy, link);
    return result;
}

// The file of a package that `image` lies in, or nothing: nobody here can build it again.
std::string installed_file(const void* image) {
    Dl_info object;
    const bool known = dladdr(image, &object) && object.dli_fname;
    const std::string file = known ? object.dli_fname : "";
    return file.find("-packages/") == file.npos ? std::string() : file;
}

// The driver's reason, with what to do for who has the file from a package.
std::string refusal_text(std::string reason, const std::string& file) {
    const size_t advice = reason.find(cuda::kBuildWithPtx);
    if (file.empty() || advice == reason.npos) return reason;
    return reason.substr(0, advice) + ". It is in " + file +
           ": the package that this came with cannot be used on a software GPU, as far as it computes with "
           "this file" +
           std::string(cuda::kOtherPackages);
}

CUresult load_image(const Driver& driver, const void* registered, CUlibrary& library) {
    Wrapper wrapper;
    std::memcpy(&wrapper, registered, sizeof wrapper);
    const bool lists = wrapper.magic == kWrapperMagic && wrapper.version >= kLinkedVersion;
    const bool linked = lists && wrapper.linked_from && wrapper.linked_from[0];
    const std::string file = installed_file(registered);
    if (!linked && file.empty()) {
        return invoke(driver.cuLibraryLoadData, &library, registered, nullptr, nullptr, 0u, nullptr, nullptr,
                      0u);
    }
    ErrorLog log;
    CUresult result = invoke(driver.cuLibraryLoadData, &library, registered, log.options(), log.values(),
                             log.count(), nullptr, nullptr, 0u);
    if (result != CUDA_SUCCESS && linked) result = link_images(driver, wrapper.linked_from, library);
    // Why PTX is not as it should be, the driver has said in any case; before, the image had none.
    const bool to_tell = result != CUDA_SUCCESS && result != CUDA_ERROR_INVALID_PTX;
    if (to_tell && !log.text().empty()) tell_user(refusal_text(log.text(), file));
    return result;
}

// What lies in the image and nowhere else: another try has the same end.
bool for_ever(CUresult result) {
    return result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_INVALID_IMAGE ||
           result == CUDA_ERROR_INVALID_PTX || result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
}

}  // namespace

CUresult load(const Driver& driver, FatBinary& binary, CUlibrary& library) {
    const uint64_t life = life_of(driver);
    const bool shows = binary.shows_managed.load();
    library = binary.library.get(life);
    if (library && (!shows || binary.shown.get(life))) return CUDA_SUCCESS;
    if (CUresult refusal = binary.refusal.get(life); refusal != CUDA_SUCCESS) return refusal;
    std::lock_guard lock(binary.mutex);
    library = binary.library.get(life);
    CUresult result = library ? CUDA_SUCCESS : load_image(driver, binary.wrapper, library);
    if (result == CUDA_SUCCESS) binary.library.keep(life, library);
    if (for_ever(result)) binary.refusal.keep(life, result);
    if (result != CUDA_SUCCESS || !shows || binary.shown.get(life)) return result;
    result = show_managed(driver, binary, library);
    if (result == CUDA_SUCCESS) binary.shown.keep(life, true);
    return result;
}

}  // namespace cudart
