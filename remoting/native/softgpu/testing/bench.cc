// A C interface to the engine for the tests, which call it through ctypes: load PTX, allocate, launch, look.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "engine.h"
#include "exec/handlers.h"
#include "exec/texture/objects.h"
#ifdef SOFTGPU_MACHINE_CODE
#include "machine_code/machine_code.h"
#endif

using namespace softgpu;

namespace {

struct Bench {
    std::unique_ptr<DeviceMemory> memory;
    std::unique_ptr<ThreadPool> pool;
    std::atomic<bool> cancel{false};
    bool cooperative = false;
    texture::Objects objects;
    uint64_t next_object = 0x9000'0000'0000;
    bool machine_code = getenv("SOFTGPU_BENCH_MACHINE_CODE") != nullptr;
    std::string text;  // of the last error or output
};

struct Loaded {
    std::shared_ptr<const void> code;  // goes last
    uint32_t ops_with_code = 0;
    std::unique_ptr<LoadedModule> module;
};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT Bench* bench_new(uint64_t bytes, unsigned threads) {
    auto bench = std::make_unique<Bench>();
    bench->memory = DeviceMemory::create(bytes);
    bench->pool = std::make_unique<ThreadPool>(threads);
    return bench->memory ? bench.release() : nullptr;
}
EXPORT void bench_delete(Bench* bench) {
    delete bench;
}
EXPORT const char* bench_text(Bench* bench) {
    return bench->text.c_str();
}
EXPORT const char* bench_executor() {
    return executor_name().data();
}
// Lines of "name 1", or 0 where this machine's tables have no handler of the name; "name ?" of handlers that
// the table of instructions does not name.
EXPORT const char* bench_handlers() {
    static const std::string* lines = [] {
        auto* made = new std::string;
        for (size_t i = 0; i < kCodes; ++i)
            *made += std::string(kHandlerNames[i]) + (find_handler(Code(i)) ? " 1\n" : " 0\n");
        for (const auto name : handlers_without_code()) *made += std::string(name) + " ?\n";
        return made;
    }();
    return lines->c_str();
}
EXPORT void bench_cancel(Bench* bench, int cancel) {
    bench->cancel = cancel != 0;
}

// Launches from now on are cooperative, or not.
EXPORT void bench_cooperative(Bench* bench, int cooperative) {
    bench->cooperative = cooperative != 0;
}

EXPORT uint64_t bench_allocate(Bench* bench, uint64_t bytes, uint64_t align) {
    return bench->memory->allocate(bytes, align);
}
EXPORT int bench_free(Bench* bench, uint64_t address) {
    return bench->memory->free(address);
}
EXPORT int bench_map_host(Bench* bench, void* memory, uint64_t bytes) {
    return bench->memory->map_host(memory, bytes);
}
EXPORT int bench_unmap_host(Bench* bench, void* memory) {
    return bench->memory->unmap_host(memory);
}
EXPORT int bench_read(Bench* bench, void* to, uint64_t from, uint64_t bytes) {
    return bench->memory->read(to, from, bytes);
}
EXPORT int bench_write(Bench* bench, uint64_t to, const void* from, uint64_t bytes) {
    return bench->memory->write(to, from, bytes);
}
// As tests/softgpu/bench.py has them.
struct BenchLevel {
    uint64_t base, row_pitch, plane_pitch;
    uint32_t width, height, depth, unused;
};
struct BenchTexture {
    uint32_t surface, kind, format, channels, gathers, levels;
    uint32_t address[3];
    uint32_t linear, normalized_coordinates, as_float, srgb, linear_between_levels, anisotropic;
    float bias, least_level, greatest_level, border[4];
};

// The number that kernels are given.
EXPORT uint64_t bench_texture(Bench* bench, const BenchTexture* given, const BenchLevel* levels) {
    auto object = std::make_shared<texture::Object>();
    object->surface = given->surface != 0;
    texture::Elements& elements = object->texture.elements;
    elements.kind = texture::Kind(given->kind);
    elements.format = texture::Format(given->format);
    elements.channels = given->channels;
    elements.gathers = given->gathers != 0;
    for (uint32_t i = 0; i < given->levels; ++i) {
        const BenchLevel& level = levels[i];
        elements.levels.push_back(
            {level.base, level.width, level.height, level.depth, level.row_pitch, level.plane_pitch});
    }
    texture::Sampler& sampler = object->texture.sampler;
    for (size_t i = 0; i < 3; ++i) sampler.address[i] = texture::Address(given->address[i]);
    sampler.linear = given->linear != 0;
    sampler.normalized_coordinates = given->normalized_coordinates != 0;
    sampler.as_float = given->as_float != 0;
    sampler.srgb = given->srgb != 0;
    sampler.linear_between_levels = given->linear_between_levels != 0;
    sampler.anisotropic = given->anisotropic != 0;
    sampler.bias = given->bias;
    sampler.least_level = given->least_level;
    sampler.greatest_level = given->greatest_level;
    for (size_t i = 0; i < 4; ++i) sampler.border[i] = given->border[i];
    bench->objects.put(bench->next_object, std::move(object));
    return std::exchange(bench->next_object, bench->next_object + 16);
}
EXPORT void bench_drop_texture(Bench* bench, uint64_t handle) {
    bench->objects.remove(handle);
}

EXPORT uint64_t bench_used(Bench* bench) {
    return bench->memory->used_bytes();
}

// Links `count` texts; null and the reason in bench_text when one is wrong.
EXPORT Loaded* bench_load(Bench* bench, const char* const* names, const char* const* texts, unsigned count,
                          int allow_undefined) {
    std::vector<PtxInput> inputs;
    for (unsigned i = 0; i < count; ++i) inputs.push_back({names[i], texts[i]});
    LinkOptions options;
    options.allow_undefined = allow_undefined != 0;
    LinkResult linked = Program::link(inputs, options);
    bench->text = linked.error;
    if (!linked.program) return nullptr;
    auto made = std::make_unique<Loaded>();
#ifdef SOFTGPU_MACHINE_CODE
    if (bench->machine_code) {
        // Nobody else has the program yet.
        const auto text = machine_code::compile(const_cast<Image&>(linked.program->image()));
        made->code = text.code;
        made->ops_with_code = text.ops;
    }
#endif
    LoadResult loaded = LoadedModule::load(linked.program, *bench->memory);
    bench->text = loaded.error;
    if (!loaded.module) return nullptr;
    made->module = std::move(loaded.module);
    return made.release();
}
// Programs loaded from now on have machine code where they can, or not.
EXPORT void bench_machine_code(Bench* bench, int on) {
    bench->machine_code = on != 0;
}
// How many of a program's ops have machine code.
EXPORT unsigned bench_ops_with_code(Loaded* loaded) {
    return loaded->ops_with_code;
}
EXPORT void bench_unload(Loaded* loaded) {
    delete loaded;
}
EXPORT int bench_find_kernel(Loaded* loaded, const char* name) {
    const auto found = loaded->module->program().find_kernel(name);
    return found ? int(*found) : -1;
}
EXPORT unsigned bench_kernel_count(Loaded* loaded) {
    return unsigned(loaded->module->program().kernels().size());
}
EXPORT const char* bench_kernel_name(Loaded* loaded, unsigned kernel) {
    return loaded->module->program().kernels()[kernel].name.c_str();
}
// param bytes, static shared, local, constant, registers, most threads
EXPORT void bench_kernel_info(Loaded* loaded, unsigned kernel, uint32_t* out) {
    const KernelInfo& info = loaded->module->program().kernels()[kernel];
    const uint32_t values[] = {info.param_bytes,    info.static_shared_bytes, info.local_bytes,
                               info.constant_bytes, info.registers,           info.max_threads};
    std::memcpy(out, values, sizeof values);
}
EXPORT unsigned bench_kernel_params(Loaded* loaded, unsigned kernel, uint32_t* offsets, uint32_t* sizes,
                                    unsigned room) {
    const KernelInfo& info = loaded->module->program().kernels()[kernel];
    for (unsigned i = 0; i < info.params.size() && i < room; ++i) {
        offsets[i] = info.params[i].offset;
        sizes[i] = info.params[i].bytes;
    }
    return unsigned(info.params.size());
}
EXPORT uint64_t bench_global(Loaded* loaded, const char* name, uint64_t* bytes) {
    const auto place = loaded->module->find_global(name);
    *bytes = place ? place->bytes : 0;
    return place ? place->address : 0;
}

// The Status as a number; detail in bench_text, what the kernel printed in `printed` (room bytes, cut).
EXPORT int bench_run(Bench* bench, Loaded* loaded, unsigned kernel, const uint32_t* shape,
                     uint32_t dynamic_shared, const void* params, uint64_t param_bytes, char* printed,
                     uint64_t room) {
    Launch launch;
    launch.module = loaded->module.get();
    launch.kernel = kernel;
    launch.grid = {shape[0], shape[1], shape[2]};
    launch.block = {shape[3], shape[4], shape[5]};
    launch.dynamic_shared_bytes = dynamic_shared;
    launch.cooperative = bench->cooperative;
    launch.params = {static_cast<const std::byte*>(params), param_bytes};
    launch.pool = bench->pool.get();
    launch.objects = &bench->objects;
    launch.cancel = &bench->cancel;
    std::string output;
    if (room != 0) {
        launch.print = [&output](std::string_view text) { output += text; };
        launch.complain = launch.print;
    }
    const LaunchResult result = run(launch);
    if (room != 0) {
        const size_t length = std::min<size_t>(output.size(), room - 1);
        std::memcpy(printed, output.data(), length);
        printed[length] = 0;
    }
    bench->text = result.detail;
    return int(result.status);
}
