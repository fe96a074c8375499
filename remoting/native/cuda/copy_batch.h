// What CUDA asks of a batch of copies, checked in one way by the client and the software GPU.
#pragma once

#include "copy_request.h"

namespace cuda {

struct CopyBatch {
    const CUdeviceptr* to;
    const CUdeviceptr* from;
    const size_t* bytes;
    size_t count;
    const CUmemcpyAttributes* attributes;
    const size_t* starts;  // attributes[k] holds from copy starts[k] on
    size_t attribute_count;
};

inline constexpr size_t kWholeBatch = SIZE_MAX;  // `failed`, when no single copy is to blame

inline bool known_order(CUmemcpySrcAccessOrder order) {
    return order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
           order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL || order == CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

// `legacy`: the stream is the legacy default one, which takes no batches. The order of the stream satisfies
// every order of access, and the hints have nothing to say here.
inline CUresult check_batch(const CopyBatch& batch, bool legacy) {
    if (legacy || !batch.to || !batch.from || !batch.bytes || batch.count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!batch.attributes || !batch.starts || batch.attribute_count == 0) return CUDA_ERROR_INVALID_VALUE;
    if (batch.attribute_count > batch.count || batch.starts[0] != 0) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < batch.attribute_count; ++i) {
        if (!known_order(batch.attributes[i].srcAccessOrder) || batch.starts[i] >= batch.count)
            return CUDA_ERROR_INVALID_VALUE;
        if (i > 0 && batch.starts[i] <= batch.starts[i - 1]) return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

// Calls `copy(request)` for each copy, in turn, until one fails; `failed` is then its number.
template <typename Copy>
CUresult each_copy(const CopyBatch& batch, size_t& failed, Copy copy) {
    for (failed = 0; failed < batch.count; ++failed) {
        const size_t i = failed;
        if (batch.bytes[i] == 0 || !batch.to[i] || !batch.from[i]) return CUDA_ERROR_INVALID_VALUE;
        const CUresult result = copy(flat_copy(CU_MEMORYTYPE_UNIFIED, batch.to[i], CU_MEMORYTYPE_UNIFIED,
                                               batch.from[i], batch.bytes[i]));
        if (result != CUDA_SUCCESS) return result;
    }
    failed = kWholeBatch;
    return CUDA_SUCCESS;
}

namespace copy_request {

// Sizes and offsets of these copies are elements: of the arrays, whose elements are of one size, or else
// bytes.
template <class Shapes>
CUresult element_of(const CUDA_MEMCPY3D_BATCH_OP& given, uint64_t& bytes, Shapes&& shapes) {
    bytes = 0;
    ArrayShape shape{};
    for (const CUmemcpy3DOperand* operand : {&given.src, &given.dst}) {
        if (operand->type != CU_MEMCPY_OPERAND_TYPE_ARRAY) continue;
        if (CUresult error = shapes(operand->op.array.array, shape)) return error;
        if (bytes && bytes != shape.element_bytes()) return CUDA_ERROR_INVALID_VALUE;
        bytes = shape.element_bytes();
    }
    bytes = bytes ? bytes : 1;
    return CUDA_SUCCESS;
}

template <class Shapes>
CUresult read_operand(const CUmemcpy3DOperand& operand, uint64_t element, const CopyRequest& request,
                      CopyEnd& end, Shapes&& shapes) {
    Given given{};
    Size along = 0;  // what counts elements
    if (operand.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
        const CUoffset3D& at = operand.op.array.offset;
        along = Size(at.x) * element;
        given = {.type = CU_MEMORYTYPE_ARRAY,
                 .array = operand.op.array.array,
                 .x = along.value(),
                 .y = at.y,
                 .z = at.z};
    } else if (operand.type == CU_MEMCPY_OPERAND_TYPE_POINTER) {
        along = Size(operand.op.ptr.rowLength) * element;
        given = {.type = CU_MEMORYTYPE_UNIFIED,
                 .device = operand.op.ptr.ptr,
                 .pitch = along.value(),
                 .height = operand.op.ptr.layerHeight};
    } else {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return along.fits() ? read_end(given, request, end, shapes) : CUDA_ERROR_INVALID_VALUE;
}

template <class Shapes>
CUresult read_copy(const CUDA_MEMCPY3D_BATCH_OP& given, CopyRequest& request, Shapes&& shapes) {
    uint64_t element = 1;
    if (CUresult error = element_of(given, element, shapes)) return error;
    const Size width = Size(given.extent.width) * element;
    if (!width.fits()) return CUDA_ERROR_INVALID_VALUE;
    request = {{}, {}, width.value(), given.extent.height, given.extent.depth};
    if (request.empty() || !known_order(given.srcAccessOrder)) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult error = read_operand(given.src, element, request, request.from, shapes)) return error;
    return read_operand(given.dst, element, request, request.to, shapes);
}

}  // namespace copy_request

// Calls `copy(request)` for each copy in three dimensions, as each_copy.
template <typename Copy, class Shapes>
CUresult each_copy_3d(const CUDA_MEMCPY3D_BATCH_OP* list, size_t count, unsigned long long flags, bool legacy,
                      size_t& failed, Copy copy, Shapes&& shapes) {
    failed = kWholeBatch;
    if (legacy || !list || count == 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    for (failed = 0; failed < count; ++failed) {
        CopyRequest request;
        if (CUresult error = copy_request::read_copy(list[failed], request, shapes)) return error;
        if (CUresult error = copy(request)) return error;
    }
    failed = kWholeBatch;
    return CUDA_SUCCESS;
}

}  // namespace cuda
