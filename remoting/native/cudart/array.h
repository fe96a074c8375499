// Channel descriptions in the driver's words, and what an array is.
#pragma once

#include "driver.h"

namespace cudart {

// cudaErrorInvalidChannelDescriptor for what no element is; cudaErrorNotSupported for kinds that are not
// plain numbers.
cudaError_t format_of(const cudaChannelFormatDesc& channels, CUarray_format& format, unsigned& count);
cudaChannelFormatDesc channels_of(CUarray_format format, unsigned count);

// Of an element, in bytes.
CUresult element_of(const Driver& driver, cudaArray_const_t array, size_t& bytes);
// Of a row.
CUresult row_of(const Driver& driver, cudaArray_const_t array, size_t& bytes);

}  // namespace cudart
