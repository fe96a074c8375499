// Entry points: what a program says about managed memory, and asks. The memory has one place, so advice and
// prefetching move nothing.
#include "driver.h"
#include "managed_advice.h"

using namespace softgpu;
using namespace softgpu::driver;

namespace {

using cuda::ManagedAdvice;
using cuda::ManagedMemory;

// The managed memory that all of the range lies in. A variable of a module is memory that programs may touch.
ManagedMemory managed(Context& context, CUdeviceptr address, size_t bytes) {
    Memory& memory = context.driver.memory;
    const auto block = memory.find(address);
    const auto variable = memory.allocation_at(address);
    const bool mapped = memory.addresses().find(address).has_value();
    require(bytes > 0 && (block ? block->place == Place::managed : variable && !mapped));
    const ManagedMemory found = block ? ManagedMemory{block->base, block->bytes, block->id}
                                      : ManagedMemory{variable->base, variable->bytes, 0};
    require(bytes <= found.base + found.bytes - address);
    return found;
}

int devices(const Context& context) {
    return static_cast<int>(context.driver.config.devices.size());
}

}  // namespace

extern "C" {

CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUmemLocation location) {
    return context_call([&](Context& context) {
        const ManagedMemory memory = managed(context, devPtr, count);
        return ManagedAdvice::get().advise(memory, devPtr, count, advice, location, devices(context));
    });
}

CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device) {
    return cuMemAdvise_v2(devPtr, count, advice, cuda::location_of(device));
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
                               CUstream hStream) {
    return context_call([&](Context& context) {
        context.stream(hStream);
        require(flags == 0);
        const ManagedMemory memory = managed(context, devPtr, count);
        return ManagedAdvice::get().prefetch(memory, devPtr, count, location, devices(context));
    });
}

CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream) {
    return cuMemPrefetchAsync_v2(devPtr, count, cuda::location_of(dstDevice), 0, hStream);
}

CUresult cuMemRangeGetAttributes(void** data, size_t* dataSizes, CUmem_range_attribute* attributes,
                                 size_t numAttributes, CUdeviceptr devPtr, size_t count) {
    return context_call([&](Context& context) {
        require(data && dataSizes && attributes && numAttributes > 0);
        const ManagedMemory memory = managed(context, devPtr, count);
        for (size_t i = 0; i < numAttributes; ++i) {
            check(
                ManagedAdvice::get().attribute(memory, devPtr, count, attributes[i], data[i], dataSizes[i]));
        }
    });
}

CUresult cuMemRangeGetAttribute(void* data, size_t dataSize, CUmem_range_attribute attribute,
                                CUdeviceptr devPtr, size_t count) {
    return cuMemRangeGetAttributes(&data, &dataSize, &attribute, 1, devPtr, count);
}
}
