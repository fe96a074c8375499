#include "measure.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

#include "devices.h"
#include "status.h"

namespace worker {
namespace {

// What a GPU has left is told only to who has a context there. So a first process, which has one, says it,
// and goes on living while a second one does what a worker does, and looks again.
bool open(Driver& driver, const Options& options, std::vector<Device>& devices) {
    std::string error;
    if (driver.open(options.driver.c_str(), error) && open_devices(driver, options, devices, error))
        return true;
    log_line("cannot measure a context: " + error);
    return false;
}

bool free_bytes(const Driver& driver, const Device& device, uint64_t& free) {
    size_t left = 0, total = 0;
    if (invoke(driver.cuCtxSetCurrent, device.context) != CUDA_SUCCESS ||
        invoke(driver.cuMemGetInfo_v2, &left, &total) != CUDA_SUCCESS) {
        log_line("cannot measure a context: the driver does not say how much memory is left");
        return false;
    }
    free = left;
    return true;
}

[[noreturn]] void first_process(const Options& options, int answers, int end) {
    Driver driver;
    std::vector<Device> devices;
    if (!open(driver, options, devices)) _exit(1);
    for (const Device& device : devices) {
        uint64_t free;
        if (!free_bytes(driver, device, free) || write(answers, &free, sizeof free) != sizeof free) _exit(1);
    }
    close(answers);
    char none;
    while (read(end, &none, 1) > 0) {
    }
    _exit(0);
}

// Loads a module and runs it: a driver may wait that long with what it takes.
void run_something(const Driver& driver, const Device& device) {
    constexpr int kNewest = 90;  // that the text's version knows; newer GPUs run it too
    const auto& attributes = device.snapshot.attributes;
    const int capability = 10 * attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR] +
                           attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR];
    const std::string text = ".version 8.0\n.target sm_" + std::to_string(std::min(capability, kNewest)) +
                             "\n.address_size 64\n.visible .entry nothing() { ret; }\n";
    CUlibrary library = nullptr;
    CUkernel kernel = nullptr;
    CUresult result = invoke(driver.cuLibraryLoadData, &library, static_cast<const void*>(text.c_str()),
                             static_cast<CUjit_option*>(nullptr), static_cast<void**>(nullptr), 0u,
                             static_cast<CUlibraryOption*>(nullptr), static_cast<void**>(nullptr), 0u);
    if (result == CUDA_SUCCESS) result = invoke(driver.cuLibraryEnumerateKernels, &kernel, 1u, library);
    if (result == CUDA_SUCCESS) {
        result = invoke(driver.cuLaunchKernel, reinterpret_cast<CUfunction>(kernel), 1u, 1u, 1u, 1u, 1u, 1u,
                        0u, static_cast<CUstream>(nullptr), static_cast<void**>(nullptr),
                        static_cast<void**>(nullptr));
    }
    if (result == CUDA_SUCCESS) result = invoke(driver.cuCtxSynchronize);
    if (result != CUDA_SUCCESS) log_line("measured a context without a kernel: the driver ran none");
}

bool measure(const Options& options, int answers, std::string& told) {
    std::vector<uint64_t> before(options.slices.size());
    for (uint64_t& free : before) {
        if (read(answers, &free, sizeof free) != sizeof free) return false;
    }
    Driver driver;
    std::vector<Device> devices;
    if (!open(driver, options, devices)) return false;
    for (size_t i = 0; i < devices.size(); ++i) {
        uint64_t after;
        if (invoke(driver.cuCtxSetCurrent, devices[i].context) != CUDA_SUCCESS) return false;
        run_something(driver, devices[i]);
        if (!free_bytes(driver, devices[i], after)) return false;
        const uint64_t taken = before[i] > after ? before[i] - after : 0;
        told += (i ? ", " : "") + std::to_string((taken + (1 << 20) - 1) >> 20);
    }
    return true;
}

bool parse(int argc, char** argv, Options& options) {
    for (int i = 2; i + 1 < argc; i += 2) {
        const std::string_view name = argv[i];
        std::string_view value = argv[i + 1];
        if (name == "--driver") options.driver = value;
        while (name == "--uuid" && !value.empty()) {
            const size_t comma = std::min(value.find(','), value.size());
            options.slices.push_back(
                {.mib = 1, .thousandths = 1, .uuid = std::string(value.substr(0, comma))});
            value.remove_prefix(std::min(comma + 1, value.size()));
        }
    }
    return !options.driver.empty() && !options.slices.empty() && options.slices.size() <= wire::kMaxDevices;
}

}  // namespace

int measure_context(int argc, char** argv) {
    Options options;
    if (!parse(argc, argv, options)) {
        log_line("--measure-context wants --driver PATH and --uuid U[,U...], of at most 16 GPUs");
        return 2;
    }
    int answers[2], end[2];
    if (pipe(answers) || pipe(end)) return 1;
    const pid_t first = fork();
    if (first < 0) return 1;
    if (first == 0) {
        close(answers[0]);
        close(end[1]);
        first_process(options, answers[1], end[0]);
    }
    close(answers[1]);
    close(end[0]);
    std::string told;
    const bool measured = measure(options, answers[0], told);
    close(end[1]);
    waitpid(first, nullptr, 0);
    if (!measured) return 1;
    std::printf("{\"context_mib\": [%s]}\n", told.c_str());
    std::fflush(stdout);
    return 0;
}

}  // namespace worker
