// The older functions: their arguments say what descriptors of the generic API do, and become such.
#include "cusparse_messages.h"
#include "handle.h"
#include "own_call.h"
#include "roles.h"
#include "status.h"

using namespace cusparse;
using namespace maths;
using namespace maths::cusparse;

namespace {

// The matrix of an analysis, which is looked for zeros on its diagonal when the program asks.
struct Analysed {
    std::mutex mutex;
    bool is_there = false;
    Sparse matrix{};
};

Status create_info(void** to) {
    if (!to) return kInvalidValue;
    *to = all<Analysed>().add();
    return *to ? kSuccess : kAllocFailed;
}
Status destroy_info(void* info) {
    return !info || all<Analysed>().remove(info) ? kSuccess : kInvalidValue;
}

struct Pattern {
    int64_t rows, columns, entries;
    const void *descriptor, *values, *offsets, *indices;
};

// Without a descriptor of this library's the result is no matrix.
Sparse matrix_of(const Pattern& pattern, Type type) {
    Sparse made{};
    const auto described = all<MatDescr>().find(pattern.descriptor);
    if (!described) return made;
    made.format = kCsr, made.type = type, made.offset_type = made.index_type = kIndex32;
    made.base = described->base, made.fill = described->fill, made.diag = described->diag;
    made.rows = pattern.rows, made.columns = pattern.columns, made.entries = pattern.entries;
    made.block_order = kByRows, made.block_rows = made.block_columns = 1, made.batch = 1;
    made.offsets = reinterpret_cast<uint64_t>(pattern.offsets);
    made.indices = reinterpret_cast<uint64_t>(pattern.indices);
    made.values = reinterpret_cast<uint64_t>(pattern.values);
    return made;
}
Sparse blocks_of(const Pattern& pattern, Type type, int direction, int size) {
    Sparse made = matrix_of(pattern, type);
    made.format = made.format == kCsr && is_direction(direction) ? kBsr : kNoFormat;
    made.block_order = direction == kBlocksByRows ? kByRows : kByColumns;
    made.block_rows = made.block_columns = size;
    return made;
}

Vector vector_of(const void* values, uint64_t size, Type type) {
    return {type, 0, static_cast<int64_t>(size), reinterpret_cast<uint64_t>(values)};
}
Dense dense_of(const void* values, uint64_t rows, int64_t columns, int64_t lead, Type type, bool transposed) {
    const int32_t order = transposed ? kByRows : kByColumns;
    return {type, order, static_cast<int64_t>(rows), columns, lead, 1, 0, reinterpret_cast<uint64_t>(values)};
}

// A step that looks at its arguments, and notes the matrix.
int analyse(const void* handle, void* info, const Sparse& matrix) {
    const auto own = all<Analysed>().find(info);
    if (!all<Handle>().find(handle)) return kNotInitialized;
    if (!own || !is_square(matrix)) return kInvalidValue;
    const std::lock_guard lock(own->mutex);
    own->is_there = true, own->matrix = matrix;
    return kSuccess;
}

// The first row of blocks whose block on the diagonal cannot be divided by; -1 where there is none.
int find_zero(const void* handle, const void* info, int* position, uint16_t function) {
    const auto own = all<Analysed>().find(info);
    if (!own) return kInvalidValue;
    OwnCall call(handle, function, false);
    zero_pivot message{};
    {
        const std::lock_guard lock(own->mutex);
        if (!own->is_there) return kInvalidValue;
        message.A = own->matrix;
    }
    call.placed(message.position, position, kI32, 1, Access::kWrite);
    const int status = call.send_and_fetch(&message, sizeof message);
    if (status != kSuccess || call.on_device()) return status;
    return *position < 0 ? kSuccess : kZeroPivot;
}

}  // namespace

#define GK_INFO(Name, name)                                                                    \
    CUSPARSE_EXPORT int cusparseCreate##Name##Info(void** to) {                                \
        return create_info(to);                                                                \
    }                                                                                          \
    CUSPARSE_EXPORT int cusparseDestroy##Name##Info(void* info) {                              \
        return destroy_info(info);                                                             \
    }                                                                                          \
    CUSPARSE_EXPORT int cusparseX##name##_zeroPivot(void* handle, void* info, int* position) { \
        return find_zero(handle, info, position, k_cusparseX##name##_zeroPivot);               \
    }
GK_INFO(Bsrsv2, bsrsv2)
GK_INFO(Bsrsm2, bsrsm2)

// Of each type.
#define GK_OLDER(T, type)                                                                                    \
    CUSPARSE_EXPORT int cusparse##T##bsrmv(void* handle, int direction, int op, int rows, int columns,       \
                                           int entries, const void* alpha, void* descriptor,                 \
                                           const void* values, const void* offsets, const void* indices,     \
                                           int size, const void* x, const void* beta, void* y) {             \
        OwnCall call(handle, k_cusparse##T##bsrmv, false);                                                   \
        spmv m{};                                                                                            \
        m.op = op, m.compute = type;                                                                         \
        m.A = blocks_of({rows, columns, entries, descriptor, values, offsets, indices}, type, direction,     \
                        size);                                                                               \
        m.x = vector_of(x, columns_of(op, m.A), type), m.y = vector_of(y, rows_of(op, m.A), type);           \
        call.scalar(m.alpha, alpha, type), call.scalar(m.beta, beta, type);                                  \
        return call.send(&m, sizeof m);                                                                      \
    }                                                                                                        \
    CUSPARSE_EXPORT int cusparse##T##bsrmm(                                                                  \
        void* handle, int direction, int opA, int opB, int rows, int n, int columns, int entries,            \
        const void* alpha, void* descriptor, const void* values, const void* offsets, const void* indices,   \
        int size, const void* B, int ldb, const void* beta, void* C, int ldc) {                              \
        OwnCall call(handle, k_cusparse##T##bsrmm, false);                                                   \
        spmm m{};                                                                                            \
        m.opA = opA, m.opB = opB, m.compute = type;                                                          \
        m.A = blocks_of({rows, columns, entries, descriptor, values, offsets, indices}, type, direction,     \
                        size);                                                                               \
        const auto inner = static_cast<int64_t>(columns_of(opA, m.A));                                       \
        m.B = opB == 0 ? dense_of(B, length(inner), n, ldb, type, false)                                     \
                       : dense_of(B, length(n), inner, ldb, type, false);                                    \
        m.C = dense_of(C, rows_of(opA, m.A), n, ldc, type, false);                                           \
        call.scalar(m.alpha, alpha, type), call.scalar(m.beta, beta, type);                                  \
        return call.send(&m, sizeof m);                                                                      \
    }                                                                                                        \
    CUSPARSE_EXPORT int cusparse##T##bsrsv2_bufferSize(void* handle, int, int, int rows, int entries,        \
                                                       void* descriptor, void*, const void*, const void*,    \
                                                       int size, void* info, int* bytes) {                   \
        const bool fits = rows >= 0 && entries >= 0 && size >= 1 && is_live<MatDescr>(descriptor);           \
        return answer_room(handle, fits && is_live<Analysed>(info), bytes);                                  \
    }                                                                                                        \
    CUSPARSE_EXPORT int cusparse##T##bsrsv2_analysis(                                                        \
        void* handle, int direction, int, int rows, int entries, void* descriptor, const void* values,       \
        const void* offsets, const void* indices, int size, void* info, int, void*) {                        \
        return analyse(                                                                                      \
            handle, info,                                                                                    \
            blocks_of({rows, rows, entries, descriptor, values, offsets, indices}, type, direction, size));  \
    }                                                                                                        \
    CUSPARSE_EXPORT int cusparse##T##bsrsv2_solve(                                                           \
        void* handle, int direction, int op, int rows, int entries, const void* alpha, void* descriptor,     \
        const void* values, const void* offsets, const void* indices, int size, void* info, const void* f,   \
        void* x, int, void*) {                                                                               \
        OwnCall call(handle, k_cusparse##T##bsrsv2_solve, false);                                            \
        spsv m{};                                                                                            \
        m.op = op, m.compute = type;                                                                         \
        m.A = blocks_of({rows, rows, entries, descriptor, values, offsets, indices}, type, direction, size); \
        m.x = vector_of(f, height(m.A), type), m.y = vector_of(x, height(m.A), type);                        \
        call.scalar(m.alpha, alpha, type);                                                                   \
        return is_live<Analysed>(info) ? call.send(&m, sizeof m) : kInvalidValue;                            \
    }                                                                                                        \
    CUSPARSE_EXPORT int cusparse##T##bsrsm2_bufferSize(void* handle, int, int, int, int rows, int n,         \
                                                       int entries, void* descriptor, void*, const void*,    \
                                                       const void*, int size, void* info, int* bytes) {      \
        const bool fits = rows >= 0 && n >= 0 && entries >= 0 && size >= 1 && is_live<MatDescr>(descriptor); \
        return answer_room(handle, fits && is_live<Analysed>(info), bytes);                                  \
    }                                                                                                        \
    CUSPARSE_EXPORT int cusparse##T##bsrsm2_analysis(                                                        \
        void* handle, int direction, int, int, int rows, int, int entries, void* descriptor,                 \
        const void* values, const void* offsets, const void* indices, int size, void* info, int, void*) {    \
        return analyse(                                                                                      \
            handle, info,                                                                                    \
            blocks_of({rows, rows, entries, descriptor, values, offsets, indices}, type, direction, size));  \
    }                                                                                                        \
    CUSPARSE_EXPORT int cusparse##T##bsrsm2_solve(                                                           \
        void* handle, int direction, int opA, int opX, int rows, int n, int entries, const void* alpha,      \
        void* descriptor, const void* values, const void* offsets, const void* indices, int size,            \
        void* info, const void* B, int ldb, void* X, int ldx, int, void*) {                                  \
        OwnCall call(handle, k_cusparse##T##bsrsm2_solve, false);                                            \
        spsm m{};                                                                                            \
        m.opA = opA, m.opB = opX == 2 ? opX : 0, m.compute = type;                                           \
        m.A = blocks_of({rows, rows, entries, descriptor, values, offsets, indices}, type, direction, size); \
        m.B = dense_of(B, height(m.A), n, ldb, type, opX != 0);                                              \
        m.C = dense_of(X, height(m.A), n, ldx, type, opX != 0);                                              \
        call.scalar(m.alpha, alpha, type);                                                                   \
        if (!is_live<Analysed>(info) || !is_op(opX)) return kInvalidValue;                                   \
        if (opX == 2) return library_unsupported("cusparse" #T "bsrsm2_solve of adjoints");                  \
        return call.send(&m, sizeof m);                                                                      \
    }                                                                                                        \
    CUSPARSE_EXPORT int cusparse##T##csrgeam2_bufferSizeExt(                                                 \
        void* handle, int rows, int columns, const void*, void* A, int entriesA, const void*, const void*,   \
        const void*, const void*, void* B, int entriesB, const void*, const void*, const void*, void* C,     \
        const void*, const void*, const void*, size_t* bytes) {                                              \
        const bool are = is_live<MatDescr>(A) && is_live<MatDescr>(B) && is_live<MatDescr>(C);               \
        return answer_room(handle, are && rows >= 0 && columns >= 0 && entriesA >= 0 && entriesB >= 0,       \
                           bytes);                                                                           \
    }                                                                                                        \
    CUSPARSE_EXPORT int cusparse##T##csrgeam2(                                                               \
        void* handle, int rows, int columns, const void* alpha, void* A, int entriesA, const void* valuesA,  \
        const void* offsetsA, const void* indicesA, const void* beta, void* B, int entriesB,                 \
        const void* valuesB, const void* offsetsB, const void* indicesB, void* C, void* valuesC,             \
        void* offsetsC, void* indicesC, void*) {                                                             \
        OwnCall call(handle, k_cusparse##T##csrgeam2, false);                                                \
        geam m{};                                                                                            \
        m.A = matrix_of({rows, columns, entriesA, A, valuesA, offsetsA, indicesA}, type);                    \
        m.B = matrix_of({rows, columns, entriesB, B, valuesB, offsetsB, indicesB}, type);                    \
        m.C = matrix_of({rows, columns, 0, C, valuesC, offsetsC, indicesC}, type);                           \
        m.compute = type;                                                                                    \
        call.scalar(m.alpha, alpha, type), call.scalar(m.beta, beta, type);                                  \
        return call.send(&m, sizeof m);                                                                      \
    }
GK_OLDER(S, kF32)
GK_OLDER(D, kF64)
GK_OLDER(C, kC32)
GK_OLDER(Z, kC64)

CUSPARSE_EXPORT int cusparseXcsrgeam2Nnz(void* handle, int rows, int columns, void* A, int entriesA,
                                         const void* offsetsA, const void* indicesA, void* B, int entriesB,
                                         const void* offsetsB, const void* indicesB, void* C, void* offsetsC,
                                         int* count, void*) {
    OwnCall call(handle, k_cusparseXcsrgeam2Nnz, false);
    geam_count m{};
    m.A = matrix_of({rows, columns, entriesA, A, nullptr, offsetsA, indicesA}, kF32);
    m.B = matrix_of({rows, columns, entriesB, B, nullptr, offsetsB, indicesB}, kF32);
    m.C = matrix_of({rows, columns, 0, C, nullptr, offsetsC, nullptr}, kF32);
    call.placed(m.count, count, kI32, 1, Access::kWrite);
    return call.send_and_fetch(&m, sizeof m);
}

CUSPARSE_EXPORT int cusparseXcoosort_bufferSizeExt(void* handle, int rows, int columns, int entries,
                                                   const void*, const void*, size_t* bytes) {
    return answer_room(handle, rows >= 0 && columns >= 0 && entries >= 0, bytes);
}

#define GK_SORT(name, family)                                                                               \
    CUSPARSE_EXPORT int cusparse##name(void* handle, int rows, int columns, int entries, void* row_indices, \
                                       void* column_indices, void* along, void*) {                          \
        OwnCall call(handle, k_cusparse##name, false);                                                      \
        family m{rows,                                                                                      \
                 columns,                                                                                   \
                 entries,                                                                                   \
                 reinterpret_cast<uint64_t>(row_indices),                                                   \
                 reinterpret_cast<uint64_t>(column_indices),                                                \
                 reinterpret_cast<uint64_t>(along)};                                                        \
        return call.send(&m, sizeof m);                                                                     \
    }
GK_SORT(XcoosortByRow, coosort_rows)
GK_SORT(XcoosortByColumn, coosort_columns)
