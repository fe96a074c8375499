#include "random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <mutex>

namespace gk {
namespace {

constexpr uint64_t kStep = 4;  // PyTorch's offsets are multiples of it

// Sebastiano Vigna's splitmix64: neighbours in, strangers out.
uint64_t mixed(uint64_t value) {
    value += 0x9e3779b97f4a7c15ull;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ull;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebull;
    return value ^ (value >> 31);
}

}  // namespace

at::Generator next_generator(const std::optional<at::Generator>& given, c10::Device device) {
    at::Generator generator =
        given && given->defined() ? *given : at::globalContext().defaultGenerator(device);
    if (generator.device().is_cpu()) return generator;
    const std::lock_guard<std::mutex> lock(generator.mutex());
    const uint64_t seed = generator.current_seed(), offset = generator.get_offset();
    generator.set_offset(offset + kStep);
    // The first draw after a seed is the processor's own after that seed.
    return at::detail::createCPUGenerator(offset == 0 ? seed : mixed(seed ^ mixed(offset)));
}

}  // namespace gk
