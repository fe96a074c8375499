/* A library with the ABI of NVIDIA's cuSPARSE, as its public documentation has it, which computes nothing and writes down what each
 * function was given, a descriptor as what it was made of: for tests/libraries/test_nvidia.py. RECORDING_CUBLAS_LOG names the
 * file. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default"))) int

static int live, pointer_mode;

static int record(const char* format, ...) {
    const char* path = getenv("RECORDING_CUBLAS_LOG");
    FILE* log = path ? fopen(path, "a") : NULL;
    va_list values;
    if (!log) return 7;
    va_start(values, format);
    vfprintf(log, format, values);
    va_end(values);
    fputc('\n', log);
    fclose(log);
    return 0;
}

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
/* The library may refuse what it does not do. The descriptors of earlier calls are gone: this one's are alone. */
EXPORT cusparseScatter(void* handle, Descriptor* x, Descriptor* y) {
    record("SparseLive %d", live);
    return handle && x && y ? 10 : 3;
}
