// cuSPARSE's descriptors as they travel with a call, by value: with the addresses of what they describe.
#pragma once

#include <cstdint>

namespace maths::cusparse {

// cusparseFormat_t, those that are done. 0: the program gave none.
enum Format : int32_t { kNoFormat = 0, kCsr = 1, kCsc = 2, kCoo = 3, kBsr = 6 };
// cusparseIndexType_t, cusparseOrder_t, cusparseFillMode_t, cusparseDirection_t.
enum IndexType : int32_t { kIndex32 = 2, kIndex64 = 3 };
enum Order : int32_t { kByColumns = 1, kByRows = 2 };
enum Fill : int32_t { kLower = 0, kUpper = 1 };
enum Direction : int32_t { kBlocksByRows = 0, kBlocksByColumns = 1 };

// A sparse matrix, or a batch of them. Rows, columns and entries are those of blocks; without blocks these
// are of one element.
struct Sparse {
    int32_t format, type;
    int32_t offset_type, index_type;
    int32_t base, block_order;
    int32_t fill, diag;  // of a triangular one
    int64_t rows, columns, entries;
    int64_t block_rows, block_columns;
    int64_t batch, offset_stride, index_stride, value_stride;
    uint64_t offsets, indices, values;  // of coordinates, `offsets` are the rows of the entries
};
struct Dense {
    int32_t type, order;
    int64_t rows, columns, lead;
    int64_t batch, stride;
    uint64_t values;
};
struct Vector {
    int32_t type, zero;
    int64_t size;
    uint64_t values;
};
// A sparse vector.
struct Entries {
    int32_t type, index_type, base, zero;
    int64_t size, count;
    uint64_t indices, values;
};
// cusparseMatDescr_t, of the older functions.
struct MatDescr {
    int32_t type, fill, diag, base;
};

}  // namespace maths::cusparse
