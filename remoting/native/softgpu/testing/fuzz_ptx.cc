// A fuzzer over PTX text: whatever links is also launched. Nothing that a text says may be more than an
// error.
#include <cstdint>
#include <memory>
#include <vector>

#include "engine.h"

using namespace softgpu;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const std::unique_ptr<DeviceMemory> memory = DeviceMemory::create(64u << 20);
    static const uint64_t buffer = memory->allocate(1u << 16);
    // Set from the start: a launch ends after its first turn, so a loop without end does not hold the fuzzer
    // up.
    static const std::atomic<bool> cancel{true};
    const PtxInput input{"fuzz", {reinterpret_cast<const char*>(data), size}};
    LinkOptions options;
    options.allow_undefined = true;
    const LinkResult linked = Program::link({&input, 1}, options);
    if (!linked.program) return 0;
    const LoadResult loaded = LoadedModule::load(linked.program, *memory);
    if (!loaded.module) return 0;
    const auto kernels = linked.program->kernels();
    for (uint32_t kernel = 0; kernel < kernels.size() && kernel < 4; ++kernel) {
        std::vector<std::byte> params(kernels[kernel].param_bytes + 8);
        for (const ParamInfo& param : kernels[kernel].params) {
            if (param.bytes == 8) *reinterpret_cast<uint64_t*>(params.data() + param.offset / 8 * 8) = buffer;
        }
        Launch launch;
        launch.module = loaded.module.get();
        launch.kernel = kernel;
        launch.block = {48, 1, 1};
        launch.params = params;
        launch.cancel = &cancel;
        launch.print = [](std::string_view) {};
        run(launch);
    }
    return 0;
}
