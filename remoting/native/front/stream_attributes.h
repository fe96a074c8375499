// What is kept of streams' attributes goes with the streams.
#pragma once

#include <cstdint>
#include <functional>

namespace front {

// The stream that cuStreamGetId gave this number has ended.
void forget_stream_attributes(uint64_t stream) noexcept;
// All those of whose numbers `ended` says so.
void forget_stream_attributes_if(const std::function<bool(uint64_t stream)>& ended);

}  // namespace front
