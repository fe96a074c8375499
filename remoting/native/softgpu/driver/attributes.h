// The device's attributes: one table, so that what programs are told fits together.
#pragma once

#include <optional>

#include "config.h"
#include "cuda_abi.h"

namespace softgpu::driver {

constexpr int kComputeMajor = 7, kComputeMinor = 5;
constexpr int kClockKHz = 1'000'000;  // %clock ticks at 1 GHz

// Nothing for a number that cuda.h does not have.
std::optional<int> device_attribute(const Config& config, CUdevice_attribute attribute);

}  // namespace softgpu::driver
