// What CUDA's descriptions of copies mean, read and checked in one way by the client and the software GPU:
// where each end begins, how its rows and planes lie, and how much is copied.
#pragma once

#include <cstdint>

#include "array_shape.h"
#include "cuda_abi.h"

namespace cuda {

// One end: `start` is its first byte; rows begin `pitch` bytes apart, planes `rows` rows. In an array, which
// is then of the type CU_MEMORYTYPE_ARRAY, `start` is an offset (array_shape.h).
struct CopyEnd {
    CUmemorytype type = CU_MEMORYTYPE_UNIFIED;
    uint64_t start = 0;
    uint64_t pitch = 0;
    uint64_t rows = 1;
    CUarray array = nullptr;
    ArrayPlace place{};  // that `start` stands for
};

struct CopyRequest {
    CopyEnd to{}, from{};
    uint64_t width = 0, height = 1, depth = 1;  // bytes, rows, planes

    bool empty() const { return width == 0 || height == 0 || depth == 0; }
};

// A sum or product that remembers whether it fits.
class Size {
  public:
    Size(uint64_t value) : value_(value) {}
    Size operator+(Size other) const {
        Size sum = *this;
        sum.fits_ = fits_ && other.fits_ && !__builtin_add_overflow(value_, other.value_, &sum.value_);
        return sum;
    }
    Size operator*(Size other) const {
        Size product = *this;
        product.fits_ =
            fits_ && other.fits_ && !__builtin_mul_overflow(value_, other.value_, &product.value_);
        return product;
    }
    bool fits() const { return fits_; }
    uint64_t value() const { return value_; }

  private:
    uint64_t value_;
    bool fits_ = true;
};

inline CopyRequest flat_copy(CUmemorytype to_type, uint64_t to, CUmemorytype from_type, uint64_t from,
                             uint64_t bytes) {
    return {{to_type, to, bytes, 1}, {from_type, from, bytes, 1}, bytes, 1, 1};
}

namespace copy_request {

// An end as the structures give it; a pitch or a height of 0 means without gaps.
struct Given {
    CUmemorytype type;
    const void* host = nullptr;
    CUdeviceptr device = 0;
    CUarray array = nullptr;
    uint64_t x = 0, y = 0, z = 0, pitch = 0, height = 0;
};

template <class Shapes>
CUresult read_end_in_array(const Given& given, const CopyRequest& request, CopyEnd& end, Shapes&& shapes) {
    ArrayShape shape;
    if (CUresult error = shapes(given.array, shape)) return error;
    const ArrayPlace place{given.x, given.y, given.z};
    if (!holds(shape, place, request.width, request.height, request.depth)) return CUDA_ERROR_INVALID_VALUE;
    end = {CU_MEMORYTYPE_ARRAY, offset_of(shape, place), shape.row_bytes(), shape.rows(), given.array, place};
    return CUDA_SUCCESS;
}

// `shapes(array, shape)` tells the shape of an array that lives, or returns an error.
template <class Shapes>
CUresult read_end(const Given& given, const CopyRequest& request, CopyEnd& end, Shapes&& shapes) {
    if (given.type == CU_MEMORYTYPE_ARRAY) return read_end_in_array(given, request, end, shapes);
    if (given.type != CU_MEMORYTYPE_HOST && given.type != CU_MEMORYTYPE_DEVICE &&
        given.type != CU_MEMORYTYPE_UNIFIED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const Size row = Size(given.x) + request.width, rows = Size(given.y) + request.height;
    if (!row.fits() || !rows.fits()) return CUDA_ERROR_INVALID_VALUE;
    end.type = given.type;
    end.pitch = given.pitch ? given.pitch : row.value();
    end.rows = given.height ? given.height : rows.value();
    if (end.pitch < row.value() || (request.depth > 1 && end.rows < rows.value()))
        return CUDA_ERROR_INVALID_VALUE;
    const Size plane = given.z || request.depth > 1 ? Size(end.pitch) * end.rows : Size(0);
    const uint64_t base = given.type == CU_MEMORYTYPE_HOST ? reinterpret_cast<uint64_t>(given.host)
                                                           : static_cast<uint64_t>(given.device);
    if (base == 0) return CUDA_ERROR_INVALID_VALUE;
    const Size start = Size(base) + plane * given.z + Size(end.pitch) * given.y + given.x;
    const Size stop =
        start + plane * (request.depth - 1) + Size(end.pitch) * (request.height - 1) + request.width;
    end.start = start.value();
    return stop.fits() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace copy_request

// CUDA_MEMCPY3D or CUDA_MEMCPY3D_PEER, which differ in fields that pointers do not need.
template <typename Given3D, class Shapes>
CUresult read_copy_3d(const Given3D* given, CopyRequest& request, Shapes&& shapes) {
    if (!given) return CUDA_ERROR_INVALID_VALUE;
    request = {{}, {}, given->WidthInBytes, given->Height, given->Depth};
    if (request.empty()) return CUDA_SUCCESS;
    if (given->srcLOD != 0 || given->dstLOD != 0) return CUDA_ERROR_INVALID_VALUE;
    if (CUresult error = copy_request::read_end(
            {given->srcMemoryType, given->srcHost, given->srcDevice, given->srcArray, given->srcXInBytes,
             given->srcY, given->srcZ, given->srcPitch, given->srcHeight},
            request, request.from, shapes)) {
        return error;
    }
    return copy_request::read_end(
        {given->dstMemoryType, given->dstHost, given->dstDevice, given->dstArray, given->dstXInBytes,
         given->dstY, given->dstZ, given->dstPitch, given->dstHeight},
        request, request.to, shapes);
}

template <class Shapes>
CUresult read_copy_2d(const CUDA_MEMCPY2D* given, CopyRequest& request, Shapes&& shapes) {
    if (!given) return CUDA_ERROR_INVALID_VALUE;
    request = {{}, {}, given->WidthInBytes, given->Height, 1};
    if (request.empty()) return CUDA_SUCCESS;
    if (CUresult error =
            copy_request::read_end({given->srcMemoryType, given->srcHost, given->srcDevice, given->srcArray,
                                    given->srcXInBytes, given->srcY, 0, given->srcPitch, 0},
                                   request, request.from, shapes)) {
        return error;
    }
    return copy_request::read_end({given->dstMemoryType, given->dstHost, given->dstDevice, given->dstArray,
                                   given->dstXInBytes, given->dstY, 0, given->dstPitch, 0},
                                  request, request.to, shapes);
}

// The copy as a node of a graph shows it. What its ends are was found out: none is unified any more.
inline CUDA_MEMCPY3D shown_copy(const CopyRequest& request) {
    CUDA_MEMCPY3D copy{};
    const CopyEnd &from = request.from, &to = request.to;
    copy.srcMemoryType = from.type;
    copy.dstMemoryType = to.type;
    if (from.type == CU_MEMORYTYPE_ARRAY) {
        copy.srcArray = from.array;
        copy.srcXInBytes = from.place.x, copy.srcY = from.place.y, copy.srcZ = from.place.z;
    } else {
        copy.srcHost = reinterpret_cast<const void*>(from.start);
        copy.srcDevice = from.start;
        copy.srcPitch = from.pitch, copy.srcHeight = from.rows;
    }
    if (to.type == CU_MEMORYTYPE_ARRAY) {
        copy.dstArray = to.array;
        copy.dstXInBytes = to.place.x, copy.dstY = to.place.y, copy.dstZ = to.place.z;
    } else {
        copy.dstHost = reinterpret_cast<void*>(to.start);
        copy.dstDevice = to.start;
        copy.dstPitch = to.pitch, copy.dstHeight = to.rows;
    }
    copy.WidthInBytes = request.width, copy.Height = request.height, copy.Depth = request.depth;
    return copy;
}

}  // namespace cuda
