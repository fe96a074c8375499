// Descriptors of the generic API, in the program's process: made, changed, read and ended. A call takes a
// copy of them.
#include <cstddef>

#include "cusparse/rules.h"
#include "handle.h"
#include "status.h"

using namespace cusparse;
using namespace maths;
using namespace maths::cusparse;

namespace {

template <typename Descriptor>
Status create(void** to, const Descriptor& value) {
    if (!to) return kInvalidValue;
    void* const made = all<Descriptor>().add();
    const auto own = all<Descriptor>().find(made);
    if (!own) return kAllocFailed;
    *own = value;
    *to = made;
    return kSuccess;
}

template <typename Descriptor>
Status destroy(const void* descriptor) {
    return !descriptor || all<Descriptor>().remove(descriptor) ? kSuccess : kInvalidValue;
}

// Runs `body` on it.
template <typename Descriptor, typename Body>
Status with(const void* descriptor, Body body) {
    const auto found = all<Descriptor>().find(descriptor);
    return found ? body(*found) : kInvalidValue;
}
template <typename Body>
Status with_sparse(const void* descriptor, int format, Body body) {
    return with<Sparse>(descriptor,
                        [&](Sparse& own) { return own.format == format ? body(own) : kInvalidValue; });
}

// What the program does not ask for, it gives no place for.
template <typename To, typename From>
void give(To* to, From value) {
    if (to) *to = static_cast<To>(value);
}
void give(void** to, uint64_t address) {
    if (to) *to = reinterpret_cast<void*>(address);
}

uint64_t address_of(const void* memory) {
    return reinterpret_cast<uint64_t>(memory);
}

Sparse matrix(int format, int64_t rows, int64_t columns, int64_t entries, int offset_type, int index_type,
              int base, int type) {
    Sparse made{};
    made.format = format, made.type = type;
    made.rows = rows, made.columns = columns, made.entries = entries;
    made.offset_type = offset_type, made.index_type = index_type, made.base = base;
    made.block_order = kByRows, made.block_rows = made.block_columns = 1, made.batch = 1;
    return made;
}

Status create(void** to, Sparse made, const void* offsets, const void* indices, const void* values) {
    made.offsets = address_of(offsets), made.indices = address_of(indices), made.values = address_of(values);
    return is_sparse(made) && bytes_of(as_type(made.type)) != 0 ? create<Sparse>(to, made) : kInvalidValue;
}

Status set_pointers(void* descriptor, int format, const void* offsets, const void* indices,
                    const void* values) {
    return with_sparse(descriptor, format, [&](Sparse& own) {
        own.offsets = address_of(offsets), own.indices = address_of(indices), own.values = address_of(values);
        return kSuccess;
    });
}

Status set_batch(void* descriptor, int format, int count, int64_t offsets, int64_t indices, int64_t values) {
    if (count < 1 || offsets < 0 || indices < 0 || values < 0) return kInvalidValue;
    return with_sparse(descriptor, format, [&](Sparse& own) {
        own.batch = count, own.offset_stride = offsets, own.index_stride = indices, own.value_stride = values;
        return kSuccess;
    });
}

}  // namespace

// Each also for a program that says that it will not write: two names, one function.
#define GK_BOTH(name, const_name, parameters, ...)                                                     \
    CUSPARSE_EXPORT Status name parameters{__VA_ARGS__} CUSPARSE_EXPORT Status const_name parameters { \
        __VA_ARGS__                                                                                    \
    }

GK_BOTH(cusparseCreateCsr, cusparseCreateConstCsr,
        (void** to, int64_t rows, int64_t columns, int64_t entries, const void* offsets, const void* indices,
         const void* values, int offset_type, int index_type, int base, int type),
        return create(to, matrix(kCsr, rows, columns, entries, offset_type, index_type, base, type), offsets,
                      indices, values);)
GK_BOTH(cusparseCreateCsc, cusparseCreateConstCsc,
        (void** to, int64_t rows, int64_t columns, int64_t entries, const void* offsets, const void* indices,
         const void* values, int offset_type, int index_type, int base, int type),
        return create(to, matrix(kCsc, rows, columns, entries, offset_type, index_type, base, type), offsets,
                      indices, values);)
GK_BOTH(cusparseCreateCoo, cusparseCreateConstCoo,
        (void** to, int64_t rows, int64_t columns, int64_t entries, const void* row_indices,
         const void* indices, const void* values, int index_type, int base, int type),
        return create(to, matrix(kCoo, rows, columns, entries, index_type, index_type, base, type),
                      row_indices, indices, values);)
GK_BOTH(cusparseCreateBsr, cusparseCreateConstBsr,
        (void** to, int64_t rows, int64_t columns, int64_t entries, int64_t block_rows, int64_t block_columns,
         const void* offsets, const void* indices, const void* values, int offset_type, int index_type,
         int base, int type, int order),
        Sparse made = matrix(kBsr, rows, columns, entries, offset_type, index_type, base, type);
        made.block_rows = block_rows, made.block_columns = block_columns, made.block_order = order;
        return create(to, made, offsets, indices, values);)
GK_BOTH(cusparseCreateDnMat, cusparseCreateConstDnMat,
        (void** to, int64_t rows, int64_t columns, int64_t lead, const void* values, int type, int order),
        const Dense made{type, order, rows, columns, lead, 1, 0, address_of(values)};
        const bool fits = is_dense(made) && ordered(order == kByRows, rows, columns, lead).fits;
        return fits && bytes_of(as_type(type)) != 0 ? create(to, made) : kInvalidValue;)
GK_BOTH(cusparseCreateDnVec, cusparseCreateConstDnVec,
        (void** to, int64_t size, const void* values, int type),
        return size >= 0 && bytes_of(as_type(type)) != 0
                   ? create(to, Vector{type, 0, size, address_of(values)})
                   : kInvalidValue;)
GK_BOTH(cusparseCreateSpVec, cusparseCreateConstSpVec,
        (void** to, int64_t size, int64_t count, const void* indices, const void* values, int index_type,
         int base, int type),
        const Entries made{type, index_type, base, 0, size, count, address_of(indices), address_of(values)};
        return is_entries(made) && bytes_of(as_type(type)) != 0 ? create(to, made) : kInvalidValue;)

CUSPARSE_EXPORT Status cusparseDestroySpMat(const void* descriptor) {
    return destroy<Sparse>(descriptor);
}
CUSPARSE_EXPORT Status cusparseDestroyDnMat(const void* descriptor) {
    return destroy<Dense>(descriptor);
}
CUSPARSE_EXPORT Status cusparseDestroyDnVec(const void* descriptor) {
    return destroy<Vector>(descriptor);
}
CUSPARSE_EXPORT Status cusparseDestroySpVec(const void* descriptor) {
    return destroy<Entries>(descriptor);
}

#define GK_GET_COMPRESSED(Name, format)                                                                 \
    GK_BOTH(cusparse##Name##Get, cusparseConst##Name##Get,                                              \
            (const void* descriptor, int64_t* rows, int64_t* columns, int64_t* entries, void** offsets, \
             void** indices, void** values, int* offset_type, int* index_type, int* base, int* type),   \
            return with_sparse(descriptor, format, [&](Sparse& own) {                                   \
                give(rows, own.rows), give(columns, own.columns), give(entries, own.entries);           \
                give(offsets, own.offsets), give(indices, own.indices), give(values, own.values);       \
                give(offset_type, own.offset_type), give(index_type, own.index_type);                   \
                give(base, own.base), give(type, own.type);                                             \
                return kSuccess;                                                                        \
            });)
GK_GET_COMPRESSED(Csr, kCsr)
GK_GET_COMPRESSED(Csc, kCsc)

GK_BOTH(cusparseCooGet, cusparseConstCooGet,
        (const void* descriptor, int64_t* rows, int64_t* columns, int64_t* entries, void** row_indices,
         void** indices, void** values, int* index_type, int* base, int* type),
        return with_sparse(descriptor, kCoo, [&](Sparse& own) {
            give(rows, own.rows), give(columns, own.columns), give(entries, own.entries);
            give(row_indices, own.offsets), give(indices, own.indices), give(values, own.values);
            give(index_type, own.index_type), give(base, own.base), give(type, own.type);
            return kSuccess;
        });)
GK_BOTH(cusparseDnMatGet, cusparseConstDnMatGet,
        (const void* descriptor, int64_t* rows, int64_t* columns, int64_t* lead, void** values, int* type,
         int* order),
        return with<Dense>(descriptor, [&](Dense& own) {
            give(rows, own.rows), give(columns, own.columns), give(lead, own.lead), give(values, own.values);
            give(type, own.type), give(order, own.order);
            return kSuccess;
        });)
GK_BOTH(cusparseDnVecGet, cusparseConstDnVecGet,
        (const void* descriptor, int64_t* size, void** values, int* type),
        return with<Vector>(descriptor, [&](Vector& own) {
            give(size, own.size), give(values, own.values), give(type, own.type);
            return kSuccess;
        });)
GK_BOTH(cusparseSpVecGet, cusparseConstSpVecGet,
        (const void* descriptor, int64_t* size, int64_t* count, void** indices, void** values,
         int* index_type, int* base, int* type),
        return with<Entries>(descriptor, [&](Entries& own) {
            give(size, own.size), give(count, own.count), give(indices, own.indices),
                give(values, own.values);
            give(index_type, own.index_type), give(base, own.base), give(type, own.type);
            return kSuccess;
        });)

#define GK_VALUES(Name, Descriptor)                                                                          \
    GK_BOTH(cusparse##Name##GetValues, cusparseConst##Name##GetValues,                                       \
            (const void* descriptor, void** values),                                                         \
            return with<Descriptor>(descriptor,                                                              \
                                    [&](Descriptor& own) { return give(values, own.values), kSuccess; });)   \
    CUSPARSE_EXPORT Status cusparse##Name##SetValues(void* descriptor, void* values) {                       \
        return with<Descriptor>(descriptor,                                                                  \
                                [&](Descriptor& own) { return own.values = address_of(values), kSuccess; }); \
    }
GK_VALUES(SpMat, Sparse)
GK_VALUES(DnMat, Dense)
GK_VALUES(DnVec, Vector)
GK_VALUES(SpVec, Entries)

CUSPARSE_EXPORT Status cusparseSpVecGetIndexBase(const void* descriptor, int* base) {
    return with<Entries>(descriptor, [&](Entries& own) { return give(base, own.base), kSuccess; });
}

CUSPARSE_EXPORT Status cusparseCsrSetPointers(void* descriptor, void* offsets, void* indices, void* values) {
    return set_pointers(descriptor, kCsr, offsets, indices, values);
}
CUSPARSE_EXPORT Status cusparseCscSetPointers(void* descriptor, void* offsets, void* indices, void* values) {
    return set_pointers(descriptor, kCsc, offsets, indices, values);
}
CUSPARSE_EXPORT Status cusparseCooSetPointers(void* descriptor, void* rows, void* indices, void* values) {
    return set_pointers(descriptor, kCoo, rows, indices, values);
}

CUSPARSE_EXPORT Status cusparseSpMatGetSize(const void* descriptor, int64_t* rows, int64_t* columns,
                                            int64_t* entries) {
    return with<Sparse>(descriptor, [&](Sparse& own) {
        give(rows, own.rows), give(columns, own.columns), give(entries, own.entries);
        return kSuccess;
    });
}
CUSPARSE_EXPORT Status cusparseSpMatGetFormat(const void* descriptor, int* format) {
    return with<Sparse>(descriptor, [&](Sparse& own) { return give(format, own.format), kSuccess; });
}
CUSPARSE_EXPORT Status cusparseSpMatGetIndexBase(const void* descriptor, int* base) {
    return with<Sparse>(descriptor, [&](Sparse& own) { return give(base, own.base), kSuccess; });
}
CUSPARSE_EXPORT Status cusparseSpMatGetStridedBatch(const void* descriptor, int* count) {
    return with<Sparse>(descriptor, [&](Sparse& own) { return give(count, own.batch), kSuccess; });
}

CUSPARSE_EXPORT Status cusparseCsrSetStridedBatch(void* descriptor, int count, int64_t offsets,
                                                  int64_t entries) {
    return set_batch(descriptor, kCsr, count, offsets, entries, entries);
}
CUSPARSE_EXPORT Status cusparseCooSetStridedBatch(void* descriptor, int count, int64_t entries) {
    return set_batch(descriptor, kCoo, count, entries, entries, entries);
}
CUSPARSE_EXPORT Status cusparseBsrSetStridedBatch(void* descriptor, int count, int64_t offsets,
                                                  int64_t indices, int64_t values) {
    return set_batch(descriptor, kBsr, count, offsets, indices, values);
}
CUSPARSE_EXPORT Status cusparseDnMatSetStridedBatch(void* descriptor, int count, int64_t stride) {
    if (count < 1 || stride < 0) return kInvalidValue;
    return with<Dense>(descriptor,
                       [&](Dense& own) { return own.batch = count, own.stride = stride, kSuccess; });
}
CUSPARSE_EXPORT Status cusparseDnMatGetStridedBatch(const void* descriptor, int* count, int64_t* stride) {
    return with<Dense>(descriptor, [&](Dense& own) {
        give(count, own.batch), give(stride, own.stride);
        return kSuccess;
    });
}

// cusparseSpMatAttribute_t: which triangle is meant, and whether its diagonal is ones.
enum Attribute : int { kFillMode = 0, kDiagType = 1 };

CUSPARSE_EXPORT Status cusparseSpMatSetAttribute(void* descriptor, int attribute, const void* value,
                                                 size_t bytes) {
    if (!value || bytes != sizeof(int)) return kInvalidValue;
    const int chosen = *static_cast<const int*>(value);
    return with<Sparse>(descriptor, [&](Sparse& own) {
        if (attribute == kFillMode && is_fill(chosen)) return own.fill = chosen, kSuccess;
        if (attribute == kDiagType && is_diag(chosen)) return own.diag = chosen, kSuccess;
        return kInvalidValue;
    });
}
CUSPARSE_EXPORT Status cusparseSpMatGetAttribute(const void* descriptor, int attribute, void* value,
                                                 size_t bytes) {
    if (!value || bytes != sizeof(int)) return kInvalidValue;
    return with<Sparse>(descriptor, [&](Sparse& own) {
        if (attribute == kFillMode) return give(static_cast<int*>(value), own.fill), kSuccess;
        if (attribute == kDiagType) return give(static_cast<int*>(value), own.diag), kSuccess;
        return kInvalidValue;
    });
}

CUSPARSE_EXPORT Status cusparseCreateMatDescr(void** to) {
    return create(to, MatDescr{});
}
CUSPARSE_EXPORT Status cusparseDestroyMatDescr(void* descriptor) {
    return destroy<MatDescr>(descriptor);
}

#define GK_MATDESCR(Name, member, holds)                                                                \
    CUSPARSE_EXPORT Status cusparseSetMat##Name(void* descriptor, int value) {                          \
        if (!(holds)) return kInvalidValue;                                                             \
        return with<MatDescr>(descriptor, [&](MatDescr& own) { return own.member = value, kSuccess; }); \
    }                                                                                                   \
    CUSPARSE_EXPORT int cusparseGetMat##Name(const void* descriptor) {                                  \
        const auto found = all<MatDescr>().find(descriptor);                                            \
        return found ? found->member : 0;                                                               \
    }
GK_MATDESCR(Type, type, value >= 0 && value <= 3)
GK_MATDESCR(FillMode, fill, is_fill(value))
GK_MATDESCR(DiagType, diag, is_diag(value))
GK_MATDESCR(IndexBase, base, is_base(value))
