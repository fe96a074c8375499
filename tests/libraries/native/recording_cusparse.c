/* A library with the ABI of NVIDIA's cuSPARSE, as its public documentation has it, which computes nothing and writes down what each
 * function was given, a descriptor as what it was made of: for tests/libraries/test_nvidia.py. RECORDING_CUBLAS_LOG names the
 * file. */
#include "recording.h"

static int live, pointer_mode;

typedef struct {
    char text[400];
    size_t length;
    int64_t rows, columns, entries;
} Descriptor;

static void note(Descriptor* made, const char* format, ...) {
    va_list values;
    va_start(values, format);
    made->length += (size_t)vsnprintf(made->text + made->length, sizeof made->text - made->length, format, values);
    va_end(values);
}
static Descriptor* create(void** to) {
    Descriptor* made = calloc(1, sizeof *made);
    ++live;
    return *to = made;
}
static int destroy(void* made) {
    --live;
    free(made);
    return 0;
}
#define ENDS(name)                   \
    EXPORT cusparse##name(void* m) { \
        return destroy(m);           \
    }
ENDS(DestroySpMat)
ENDS(DestroyDnMat)
ENDS(DestroyDnVec)
ENDS(DestroySpVec)
ENDS(SpSV_destroyDescr)
ENDS(SpGEMM_destroyDescr)
ENDS(DestroyMatDescr)
ENDS(DestroyBsrsv2Info)
ENDS(DestroyBsrsm2Info)

EXPORT cusparseCreate(void** handle) {
    *handle = (void*)0x4000;
    return record("SparseCreate");
}
EXPORT cusparseSetStream(void* handle, void* stream) {
    return record("SparseStream %s", stream ? "own" : "default") || !handle;
}
EXPORT cusparseSetPointerMode(void* handle, int mode) {
    return pointer_mode = mode, !handle;
}

EXPORT cusparseCreateCsr(void** to, int64_t rows, int64_t columns, int64_t entries, void* offsets, void* indices,
                         void* values, int offset_type, int index_type, int base, int type) {
    Descriptor* made = create(to);
    made->rows = rows, made->columns = columns, made->entries = entries;
    note(made, "csr:%ld,%ld,%ld:%p,%p,%p:%d,%d,%d,%d", (long)rows, (long)columns, (long)entries, offsets, indices, values,
         offset_type, index_type, base, type);
    return 0;
}
EXPORT cusparseCreateCoo(void** to, int64_t rows, int64_t columns, int64_t entries, void* row_indices, void* indices,
                         void* values, int index_type, int base, int type) {
    note(create(to), "coo:%ld,%ld,%ld:%p,%p,%p:%d,%d,%d", (long)rows, (long)columns, (long)entries, row_indices, indices,
         values, index_type, base, type);
    return 0;
}
EXPORT cusparseCreateBsr(void** to, int64_t rows, int64_t columns, int64_t entries, int64_t high, int64_t wide,
                         void* offsets, void* indices, void* values, int offset_type, int index_type, int base, int type,
                         int order) {
    note(create(to), "bsr:%ld,%ld,%ld,%ld,%ld:%p,%p,%p:%d,%d,%d,%d,%d", (long)rows, (long)columns, (long)entries, (long)high,
         (long)wide, offsets, indices, values, offset_type, index_type, base, type, order);
    return 0;
}
EXPORT cusparseCsrSetStridedBatch(Descriptor* made, int count, int64_t offsets, int64_t entries) {
    note(made, ":b%d,%ld,%ld", count, (long)offsets, (long)entries);
    return 0;
}
EXPORT cusparseSpMatSetAttribute(Descriptor* made, int attribute, const int* value, size_t bytes) {
    note(made, ":%c%d", attribute ? 'd' : 'f', *value);
    return bytes != sizeof(int);
}
EXPORT cusparseCsrSetPointers(Descriptor* made, void* offsets, void* indices, void* values) {
    note(made, ":p%p,%p,%p", offsets, indices, values);
    return 0;
}
/* It finds as many entries as there are rows. */
EXPORT cusparseSpMatGetSize(Descriptor* made, int64_t* rows, int64_t* columns, int64_t* entries) {
    *rows = made->rows, *columns = made->columns, *entries = made->rows;
    return 0;
}
EXPORT cusparseCreateDnMat(void** to, int64_t rows, int64_t columns, int64_t lead, void* values, int type, int order) {
    note(create(to), "%ld,%ld,%ld:%p:%d,%d", (long)rows, (long)columns, (long)lead, values, type, order);
    return 0;
}
EXPORT cusparseDnMatSetStridedBatch(Descriptor* made, int count, int64_t stride) {
    note(made, ":b%d,%ld", count, (long)stride);
    return 0;
}
EXPORT cusparseCreateDnVec(void** to, int64_t size, void* values, int type) {
    note(create(to), "%ld:%p:%d", (long)size, values, type);
    return 0;
}
EXPORT cusparseCreateSpVec(void** to, int64_t size, int64_t count, void* indices, void* values, int index_type, int base,
                           int type) {
    note(create(to), "%ld,%ld:%p,%p:%d,%d,%d", (long)size, (long)count, indices, values, index_type, base, type);
    return 0;
}
EXPORT cusparseSpSV_createDescr(void** to) {
    note(create(to), "steps");
    return 0;
}
EXPORT cusparseSpGEMM_createDescr(void** to) {
    note(create(to), "steps");
    return 0;
}

EXPORT cusparseSpMV_bufferSize(void* handle, int op, const double* alpha, Descriptor* a, Descriptor* x, const double* beta,
                               Descriptor* y, int compute, int algorithm, size_t* bytes) {
    *bytes = 1000;
    return record("SpMVSize %d %g %s %s %g %s %d %d", op, *alpha, a->text, x->text, *beta, y->text, compute, algorithm) || !handle;
}
EXPORT cusparseSpMV(void* handle, int op, const double* alpha, Descriptor* a, Descriptor* x, const double* beta, Descriptor* y,
                    int compute, int algorithm, void* room) {
    record("SparseRoom %p", room);
    return record("SpMV %d %g %s %s %g %s %d %d", op, *alpha, a->text, x->text, *beta, y->text, compute, algorithm) || !handle;
}
EXPORT cusparseSpMM_bufferSize(void* handle, int opA, int opB, const void* alpha, Descriptor* a, Descriptor* b,
                               const void* beta, Descriptor* c, int compute, int algorithm, size_t* bytes) {
    *bytes = (size_t)9 << 20; /* more than a stream's room has at first */
    return !handle || !alpha || !beta || opA < opB || !a || !b || !c || compute < algorithm;
}
EXPORT cusparseSpMM(void* handle, int opA, int opB, const void* alpha, Descriptor* a, Descriptor* b, const void* beta,
                    Descriptor* c, int compute, int algorithm, void* room) {
    record("SparseRoom %p", room);
    return record("SpMM %d %d %p %s %s %p %s %d %d mode%d", opA, opB, alpha, a->text, b->text, beta, c->text, compute,
                  algorithm, pointer_mode) ||
           !handle;
}
EXPORT cusparseAxpby(void* handle, const float* alpha, Descriptor* x, const float* beta, Descriptor* y) {
    return record("Axpby %g %s %g %s", (double)*alpha, x->text, (double)*beta, y->text) || !handle;
}
EXPORT cusparseSpSV_bufferSize(void* handle, int op, const double* alpha, Descriptor* a, Descriptor* x, Descriptor* y,
                               int compute, int algorithm, Descriptor* steps, size_t* bytes) {
    *bytes = 16;
    note(steps, ":sized");
    return !handle || op < 0 || !alpha || !a || !x || !y || compute < algorithm;
}
EXPORT cusparseSpSV_analysis(void* handle, int op, const double* alpha, Descriptor* a, Descriptor* x, Descriptor* y,
                             int compute, int algorithm, Descriptor* steps, void* room) {
    note(steps, ":analysed");
    return !handle || op < 0 || !alpha || !a || !x || !y || compute < algorithm || !room;
}
EXPORT cusparseSpSV_solve(void* handle, int op, const double* alpha, Descriptor* a, Descriptor* x, Descriptor* y, int compute,
                          int algorithm, Descriptor* steps) {
    return record("SpSV %d %g %s %s %s %d %d %s", op, *alpha, a->text, x->text, y->text, compute, algorithm, steps->text) ||
           !handle;
}
EXPORT cusparseSpGEMM_workEstimation(void* handle, int opA, int opB, const void* alpha, Descriptor* a, Descriptor* b,
                                     const void* beta, Descriptor* c, int compute, int algorithm, Descriptor* steps,
                                     size_t* bytes, void* room) {
    if (room) note(steps, ":estimated%zu", *bytes);
    *bytes = 300;
    return !handle || opA != opB || !alpha || !beta || !a || !b || !c || compute < algorithm;
}
EXPORT cusparseSpGEMM_compute(void* handle, int opA, int opB, const double* alpha, Descriptor* a, Descriptor* b,
                              const double* beta, Descriptor* c, int compute, int algorithm, Descriptor* steps, size_t* bytes,
                              void* room) {
    *bytes = 500;
    if (!room) return 0;
    note(steps, ":computed%zu", *bytes);
    record("SparseRoom %p", room);
    return record("SpGEMMCompute %d %d %g %s %s %g %s %d %d %s", opA, opB, *alpha, a->text, b->text, *beta, c->text, compute,
                  algorithm, steps->text) ||
           !handle;
}
EXPORT cusparseSpGEMM_copy(void* handle, int opA, int opB, const double* alpha, Descriptor* a, Descriptor* b,
                           const double* beta, Descriptor* c, int compute, int algorithm, Descriptor* steps) {
    record("SpGEMMCopy %d %d %g %s %s %g %s %d %d %s", opA, opB, *alpha, a->text, b->text, *beta, c->text, compute, algorithm,
           steps->text);
    return !handle;
}
/* The older functions. */
EXPORT cusparseCreateMatDescr(void** to) {
    note(create(to), "m");
    return 0;
}
#define SETS(name, letter)                                    \
    EXPORT cusparseSetMat##name(Descriptor* made, int value) { \
        note(made, letter "%d", value);                       \
        return 0;                                             \
    }
SETS(Type, ":t")
SETS(FillMode, ":f")
SETS(DiagType, ":d")
SETS(IndexBase, ":b")
EXPORT cusparseCreateBsrsv2Info(void** to) {
    note(create(to), "info");
    return 0;
}
EXPORT cusparseCreateBsrsm2Info(void** to) {
    note(create(to), "info");
    return 0;
}
EXPORT cusparseDbsrmv(void* handle, int direction, int op, int rows, int columns, int entries, const double* alpha,
                      Descriptor* is, void* values, void* offsets, void* indices, int size, void* x, const double* beta,
                      void* y) {
    return record("Bsrmv %d %d %d %d %d %g %s %p %p %p %d %p %g %p", direction, op, rows, columns, entries, *alpha, is->text,
                  values, offsets, indices, size, x, *beta, y) ||
           !handle;
}
EXPORT cusparseDbsrmm(void* handle, int direction, int opA, int opB, int rows, int n, int columns, int entries,
                      const double* alpha, Descriptor* is, void* values, void* offsets, void* indices, int size, void* B,
                      int ldb, const double* beta, void* C, int ldc) {
    return record("Bsrmm %d %d %d %d %d %d %d %g %s %p %p %p %d %p %d %g %p %d", direction, opA, opB, rows, n, columns, entries,
                  *alpha, is->text, values, offsets, indices, size, B, ldb, *beta, C, ldc) ||
           !handle;
}
EXPORT cusparseDbsrsv2_bufferSize(void* handle, int direction, int op, int rows, int entries, Descriptor* is, void* values,
                                  void* offsets, void* indices, int size, Descriptor* info, int* bytes) {
    note(info, ":sized");
    *bytes = 77;
    return record("Bsrsv2Size %d %d %d %d %s %p %p %p %d", direction, op, rows, entries, is->text, values, offsets, indices,
                  size) ||
           !handle;
}
EXPORT cusparseDbsrsv2_analysis(void* handle, int direction, int op, int rows, int entries, Descriptor* is, void* values,
                                void* offsets, void* indices, int size, Descriptor* info, int policy, void* room) {
    note(info, ":analysed");
    return !handle || !room || policy || direction + op + rows + entries + size < 0 || !is || !values || !offsets || !indices;
}
EXPORT cusparseDbsrsv2_solve(void* handle, int direction, int op, int rows, int entries, const double* alpha, Descriptor* is,
                             void* values, void* offsets, void* indices, int size, Descriptor* info, void* f, void* x,
                             int policy, void* room) {
    record("Bsrsv2 %d %d %d %d %g %s %p %p %p %d %s %p %p %d", direction, op, rows, entries, *alpha, is->text, values, offsets,
           indices, size, info->text, f, x, policy);
    note(info, ":solved");
    return !handle || !room;
}
/* A zero is found by a solution. */
EXPORT cusparseXbsrsv2_zeroPivot(void* handle, Descriptor* info, int* position) {
    const int is_solved = info->text[info->length - 1] == 'd' && info->text[info->length - 3] == 'v';
    *position = is_solved ? 3 : -1;
    return is_solved ? 9 : !handle;
}
EXPORT cusparseDbsrsm2_bufferSize(void* handle, int direction, int opA, int opX, int rows, int n, int entries, Descriptor* is,
                                  void* values, void* offsets, void* indices, int size, Descriptor* info, int* bytes) {
    note(info, ":sized");
    *bytes = 78;
    return !handle || direction + opA + opX + rows + n + entries + size < 0 || !is || !values || !offsets || !indices;
}
EXPORT cusparseDbsrsm2_analysis(void* handle, int direction, int opA, int opX, int rows, int n, int entries, Descriptor* is,
                                void* values, void* offsets, void* indices, int size, Descriptor* info, int policy,
                                void* room) {
    note(info, ":analysed");
    return !handle || !room || policy + direction + opA + opX + rows + n + entries + size < 0 || !is || !values || !offsets ||
           !indices;
}
EXPORT cusparseDbsrsm2_solve(void* handle, int direction, int opA, int opX, int rows, int n, int entries, const double* alpha,
                             Descriptor* is, void* values, void* offsets, void* indices, int size, Descriptor* info, void* B,
                             int ldb, void* X, int ldx, int policy, void* room) {
    return record("Bsrsm2 %d %d %d %d %d %d %g %s %p %p %p %d %s %p %d %p %d %d", direction, opA, opX, rows, n, entries, *alpha,
                  is->text, values, offsets, indices, size, info->text, B, ldb, X, ldx, policy) ||
           !handle || !room;
}
#define SUM_ROOM(name, type)                                                                                                \
    EXPORT name(void* handle, int rows, int columns, const type* alpha, Descriptor* a, int of_a, void* va, void* pa, void* ia, \
                const type* beta, Descriptor* b, int of_b, void* vb, void* pb, void* ib, Descriptor* c, void* vc, void* pc,  \
                void* ic, size_t* bytes) {                                                                                  \
        *bytes = 79;                                                                                                        \
        return record(#name " %d %d %g %s %d %p %p %p %g %s %d %p %p %p %s %p %p %p", rows, columns, (double)*alpha, a->text, \
                      of_a, va, pa, ia, (double)*beta, b->text, of_b, vb, pb, ib, c->text, vc, pc, ic) ||                   \
               !handle;                                                                                                     \
    }
SUM_ROOM(cusparseScsrgeam2_bufferSizeExt, float)
SUM_ROOM(cusparseDcsrgeam2_bufferSizeExt, double)
EXPORT cusparseXcsrgeam2Nnz(void* handle, int rows, int columns, Descriptor* a, int of_a, void* pa, void* ia, Descriptor* b,
                            int of_b, void* pb, void* ib, Descriptor* c, void* pc, int* count, void* room) {
    *count = 12345;
    return record("SumCount %d %d %s %d %p %p %s %d %p %p %s %p", rows, columns, a->text, of_a, pa, ia, b->text, of_b, pb, ib,
                  c->text, pc) ||
           !handle || !room;
}
EXPORT cusparseDcsrgeam2(void* handle, int rows, int columns, const double* alpha, Descriptor* a, int of_a, void* va, void* pa,
                         void* ia, const double* beta, Descriptor* b, int of_b, void* vb, void* pb, void* ib, Descriptor* c,
                         void* vc, void* pc, void* ic, void* room) {
    return record("Sum %d %d %g %s %d %p %p %p %g %s %d %p %p %p %s %p %p %p", rows, columns, *alpha, a->text, of_a, va, pa, ia,
                  *beta, b->text, of_b, vb, pb, ib, c->text, vc, pc, ic) ||
           !handle || !room;
}
EXPORT cusparseXcoosort_bufferSizeExt(void* handle, int rows, int columns, int entries, void* r, void* c, size_t* bytes) {
    *bytes = 80;
    return !handle || rows + columns + entries < 0 || !r || !c;
}
EXPORT cusparseXcoosortByColumn(void* handle, int rows, int columns, int entries, void* r, void* c, void* along, void* room) {
    return record("SortByColumn %d %d %d %p %p %p", rows, columns, entries, r, c, along) || !handle || !room;
}
EXPORT cusparseXcsrsort_bufferSizeExt(void* handle, int rows, int columns, int entries, void* p, void* i, size_t* bytes) {
    *bytes = 81;
    return !handle || rows + columns + entries < 0 || !p || !i;
}
EXPORT cusparseXcsrsort(void* handle, int rows, int columns, int entries, Descriptor* is, void* p, void* i, void* along,
                        void* room) {
    return record("SortRows %d %d %d %s %p %p %p", rows, columns, entries, is->text, p, i, along) || !handle || !room;
}
EXPORT cusparseZgtsv2_bufferSizeExt(void* handle, int m, int n, void* dl, void* d, void* du, void* B, int ldb, size_t* bytes) {
    *bytes = 82;
    return !handle || m != 7 || n != 2 || !dl || !d || !du || !B || ldb != 9;
}
EXPORT cusparseZgtsv2(void* handle, int m, int n, void* dl, void* d, void* du, void* B, int ldb, void* room) {
    return record("Tridiagonal %d %d %p %p %p %p %d", m, n, dl, d, du, B, ldb) || !handle || !room;
}
EXPORT cusparseSgtsv2StridedBatch_bufferSizeExt(void* handle, int m, void* dl, void* d, void* du, void* x, int batch, int apart,
                                                size_t* bytes) {
    *bytes = 83;
    return !handle || m != 7 || !dl || !d || !du || !x || batch != 3 || apart != 8;
}
EXPORT cusparseSgtsv2StridedBatch(void* handle, int m, void* dl, void* d, void* du, void* x, int batch, int apart, void* room) {
    return record("TridiagonalBatch %d %p %p %p %p %d %d", m, dl, d, du, x, batch, apart) || !handle || !room;
}

/* The library may refuse what it does not do. The descriptors of earlier calls are gone: this one's are alone. */
EXPORT cusparseScatter(void* handle, Descriptor* x, Descriptor* y) {
    record("SparseLive %d", live);
    return handle && x && y ? 10 : 3;
}
