#include "curand/generators.h"

#include <new>

#include "curand/engines.h"
#include "curand/numbers.h"
#include "driver.h"
#include "roles.h"

namespace curand {
namespace {

using namespace maths::curand;

CUresult post(const Generator& generator, Function function, const void* message, size_t bytes) {
    return libraries::post(generator.stream, {kGkCurand, function, LIBRARY_MAJOR}, message, bytes);
}

Status generate_here(const Generator& generator, const Generate& call) {
    const auto never = [] { return false; };
    void* const output = reinterpret_cast<void*>(call.output);
    if (call.settings.kind == kMt19937) {
        write_numbers(GenerateTwister{call, generator.twister}, output, never);
    } else {
        write_numbers(call, output, never);
    }
    return kSuccess;
}

Status generate_in_stream(Generator& generator, Generate& call) {
    GenerateTwister twister{call, generator.twister};
    const bool is_twister = call.settings.kind == kMt19937;
    const Function function = is_twister ? kGenerateTwister : kGenerate;
    void* const message = is_twister ? static_cast<void*>(&twister) : &call;
    const size_t bytes = is_twister ? sizeof twister : sizeof call;
    maths::SizesAlone sizes(false, false);
    if (look_at(function, message, bytes, sizes) != maths::Fit::fits) return kOutOfRange;
    const CUresult result = post(generator, function, message, bytes);
    if (result == CUDA_ERROR_NOT_SUPPORTED) library_unsupported("curandGenerate on this GPU");
    if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) library_unsupported("cuRAND in a captured stream");
    generator.has_run |= result == CUDA_SUCCESS;
    return meaning(result);
}

// Whether all of a call's results lie in one allocation, as far as the driver knows.
bool has_memory(const Generate& call) {
    CUdeviceptr base = 0;
    size_t bytes = 0;
    if (libraries::driver()->range(&base, &bytes, call.output) != CUDA_SUCCESS) return false;
    const uint64_t behind = bytes - (call.output - base);
    return behind >= maths::product(maths::length(call.count), maths::bytes_of(type_of(call.result)));
}

// What was asked for of a twister the process passes over, which takes long of much: so a call that has not
// the memory is waited for, and has failed.
Status pass_over_results(Generator& generator, const Generate& call) {
    constexpr int64_t kFew = 1 << 20;
    if (!generator.on_host && call.count > kFew && !has_memory(call)) {
        const CUresult result = libraries::driver()->synchronize(generator.stream);
        if (result != CUDA_SUCCESS) return meaning(result);
    }
    pass_over(generator.twister, call.result, call.count);
    return kSuccess;
}

}  // namespace

libraries::Handles<Generator>& generators() {
    static auto* const all = new libraries::Handles<Generator>;  // never destroyed: exit handlers may call
    return *all;
}

Status look() {
    const CUresult answer = libraries::look(kGkCurand, LIBRARY_MAJOR);
    if (answer == CUDA_ERROR_NOT_SUPPORTED) library_unsupported("curandCreateGenerator on this GPU");
    return answer == CUDA_ERROR_NOT_SUPPORTED || answer == CUDA_ERROR_NOT_INITIALIZED ? kInitializationFailed
                                                                                      : kSuccess;
}

void begin_at_offset(Generator& generator) {
    ++generator.offsets;
    generator.position = start_of(generator.settings);
    if (generator.settings.kind == kMt19937) generator.twister = Mt19937::seeded(generator.settings.seed);
}

void change_to(Generator& generator, const Settings& settings) {
    Position& position = generator.position;
    const uint64_t before = lanes_of(generator.settings), lanes = lanes_of(settings);
    if (lanes != before) {
        const uint64_t draws = position.row * before + position.lane;
        position = {draws / lanes, draws % lanes, position.step, position.within};
    }
    generator.settings = settings;
}

Status generate(Generator& generator, int64_t result, void* output, size_t count, double first,
                double second) {
    const Settings& settings = generator.settings;
    if (!result_fits(settings.kind, result)) return kTypeError;
    if (count > INT64_MAX) return kOutOfRange;
    if (!count_fits(settings, result, static_cast<int64_t>(count))) return kLengthNotMultiple;
    if (result == kPoisson && !(first > 0 && first <= kMostPoisson)) return kOutOfRange;
    if (count == 0) return kSuccess;
    if (!output) return kOutOfRange;
    if (settings.kind == kMt19937 && !generator.on_host && count > kMostOfTwister)
        return static_cast<Status>(
            library_unsupported("curandGenerate of more than 2^33 numbers of MT19937"));
    generator.position = aligned(settings, generator.position, result);
    Generate call{reinterpret_cast<uint64_t>(output),
                  static_cast<int64_t>(count),
                  result,
                  first,
                  second,
                  generator.number,
                  generator.offsets,
                  settings,
                  generator.position};
    const Status status =
        generator.on_host ? generate_here(generator, call) : generate_in_stream(generator, call);
    if (status != kSuccess) return status;
    // The place and the twister go on together: a call that has failed leaves both.
    if (settings.kind == kMt19937) {
        if (const Status passed = pass_over_results(generator, call)) return passed;
    }
    generator.position = behind(settings, generator.position, result, call.count);
    return kSuccess;
}

void end(Generator& generator) {
    const uint64_t number = generator.number;
    if (generator.has_run)
        libraries::post(nullptr, {kGkCurand, kGkForget, LIBRARY_MAJOR}, &number, sizeof number);
}

}  // namespace curand
