// Entry points: filling memory.
#include "copy.h"
#include "driver.h"

using namespace softgpu;
using namespace softgpu::driver;

namespace {

struct Area {
    CUdeviceptr address;
    size_t pitch, width, height;
};

CUresult fill(CUstream handle, bool wait, const Area& area, uint32_t value, uint32_t unit) {
    return context_call([&](Context& context) {
        const auto stream = context.stream(handle);
        submit_fill(*stream,
                    fill_of(*stream->context, area.address, area.pitch, value, unit, area.width, area.height),
                    wait);
    });
}

}  // namespace

extern "C" {

CUresult cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N) {
    return fill(nullptr, true, {dstDevice, 0, N, 1}, uc, 1);
}

CUresult cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N) {
    return fill(nullptr, true, {dstDevice, 0, N, 1}, us, 2);
}

CUresult cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N) {
    return fill(nullptr, true, {dstDevice, 0, N, 1}, ui, 4);
}

CUresult cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width,
                         size_t Height) {
    return fill(nullptr, true, {dstDevice, dstPitch, Width, Height}, uc, 1);
}

CUresult cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width,
                          size_t Height) {
    return fill(nullptr, true, {dstDevice, dstPitch, Width, Height}, us, 2);
}

CUresult cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width,
                          size_t Height) {
    return fill(nullptr, true, {dstDevice, dstPitch, Width, Height}, ui, 4);
}

CUresult cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream) {
    return fill(hStream, false, {dstDevice, 0, N, 1}, uc, 1);
}

CUresult cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream) {
    return fill(hStream, false, {dstDevice, 0, N, 1}, us, 2);
}

CUresult cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream) {
    return fill(hStream, false, {dstDevice, 0, N, 1}, ui, 4);
}

CUresult cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width,
                           size_t Height, CUstream hStream) {
    return fill(hStream, false, {dstDevice, dstPitch, Width, Height}, uc, 1);
}

CUresult cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width,
                            size_t Height, CUstream hStream) {
    return fill(hStream, false, {dstDevice, dstPitch, Width, Height}, us, 2);
}

CUresult cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width,
                            size_t Height, CUstream hStream) {
    return fill(hStream, false, {dstDevice, dstPitch, Width, Height}, ui, 4);
}
}
