// The nodes that the calls of codegen/calls.txt become in a captured stream.
#pragma once

#include "capture.h"

namespace client {

inline graphs::Params fill_node(CUdeviceptr to, size_t pitch, unsigned value, unsigned element, size_t width,
                                size_t height) {
    graphs::FillParams node{{to, pitch, value, element, width, height, nullptr}};
    graphs::platform::check(node);
    return node;
}

inline graphs::Params node_of_cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count) {
    return fill_node(to, 0, value, 1, count, 1);
}
inline graphs::Params node_of_cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count) {
    return fill_node(to, 0, value, 2, count, 1);
}
inline graphs::Params node_of_cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count) {
    return fill_node(to, 0, value, 4, count, 1);
}
inline graphs::Params node_of_cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value,
                                                size_t width, size_t height) {
    return fill_node(to, pitch, value, 1, width, height);
}
inline graphs::Params node_of_cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value,
                                                 size_t width, size_t height) {
    return fill_node(to, pitch, value, 2, width, height);
}
inline graphs::Params node_of_cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width,
                                                 size_t height) {
    return fill_node(to, pitch, value, 4, width, height);
}

}  // namespace client
