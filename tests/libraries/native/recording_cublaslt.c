/* A library with the ABI of NVIDIA's cuBLASLt, as its public documentation has it, which computes nothing and writes down
 * what it is given: for tests/libraries/test_nvidia.py. RECORDING_CUBLAS_LOG names the file. */
#include <string.h>

#include "recording.h"

/* A descriptor: its text, to which attributes are added. */
struct descriptor {
    int live;
    char text[1024];
};
static struct descriptor all[64];
static int made, ended;

static struct descriptor* make(void** to) {
    struct descriptor* one = &all[made++ % 64];
    one->live = 1;
    one->text[0] = 0;
    *to = one;
    return one;
}
static int end(struct descriptor* one) {
    ++ended;
    one->live = 0;
    return 0;
}
static int set(struct descriptor* one, int number, const void* from, size_t bytes) {
    uint64_t value = 0;
    char text[64];
    if (!one->live || bytes > sizeof value) return 7;
    memcpy(&value, from, bytes);
    snprintf(text, sizeof text, " %d=%lu:%zu", number, (unsigned long)value, bytes);
    strncat(one->text, text, sizeof one->text - strlen(one->text) - 1);
    return 0;
}

EXPORT cublasLtCreate(void** handle) {
    if (getenv("RECORDING_CUBLASLT_HAS_NO_ROOM")) return 3;
    *handle = (void*)0x2000;
    return record("LtCreate");
}
EXPORT cublasLtMatrixLayoutCreate(void** to, int type, uint64_t rows, uint64_t columns, int64_t lead) {
    struct descriptor* one = make(to);
    snprintf(one->text, sizeof one->text, "%d %lu %lu %ld", type, (unsigned long)rows, (unsigned long)columns, (long)lead);
    return 0;
}
EXPORT cublasLtMatmulDescCreate(void** to, int compute, int scale) {
    struct descriptor* one = make(to);
    snprintf(one->text, sizeof one->text, "%d %d", compute, scale);
    return 0;
}
EXPORT cublasLtMatrixTransformDescCreate(void** to, int scale) {
    struct descriptor* one = make(to);
    snprintf(one->text, sizeof one->text, "%d", scale);
    return 0;
}
EXPORT cublasLtMatmulPreferenceCreate(void** to) {
    make(to);
    return 0;
}

#define KIND(name)                                                                                  \
    EXPORT cublasLt##name##Destroy(void* one) { return end(one); }                                  \
    EXPORT cublasLt##name##SetAttribute(void* one, int number, const void* from, size_t bytes) {    \
        return set(one, number, from, bytes);                                                       \
    }
KIND(MatrixLayout)
KIND(MatmulDesc)
KIND(MatrixTransformDesc)
KIND(MatmulPreference)

static const char* text(void* one) {
    return one ? ((struct descriptor*)one)->text : "none";
}

struct result {
    uint64_t algorithm[8];
    size_t workspace;
    int state;
    float waves;
    int reserved[4];
};

EXPORT cublasLtMatmulAlgoGetHeuristic(void* handle, void* product, void* a, void* b, void* c, void* d, void* preference,
                                      int most, struct result* results, int* count) {
    memset(results, 0, sizeof *results);
    results->algorithm[0] = 0x1234;
    /* Of results of 13 rows it has none; for those of 12 it needs 8 MiB. */
    *count = strncmp(text(d), "0 13 ", 5) != 0;
    if (strncmp(text(d), "0 12 ", 5) == 0) {
        unsigned long allowed = 0;
        sscanf(text(preference), " 1=%lu:8", &allowed);
        results->workspace = 8 << 20;
        *count = allowed >= results->workspace;
    }
    return record("Heuristic %s", text(preference)) || most != 1 || !handle || !product || !a || !b || !c || !d;
}
EXPORT cublasLtMatmul(void* handle, void* product, const float* alpha, const void* A, void* a, const void* B, void* b,
                      const float* beta, const void* C, void* c, void* D, void* d, const uint64_t* algorithm,
                      void* workspace, size_t bytes, void* stream) {
    record("LtProduct %s", text(product));
    record("LtA %p %s", A, text(a));
    record("LtB %p %s", B, text(b));
    record("LtC %p %s", C, text(c));
    record("LtD %p %s", D, text(d));
    record("LtScalars %g %g", (double)*alpha, (double)*beta);
    record("LtWorkspace %p %zu", workspace, bytes);
    record("LtStream %s", stream ? "own" : "default");
    return record("LtAlgorithm %lx", (unsigned long)algorithm[0]) || !handle;
}
EXPORT cublasLtMatrixTransform(void* handle, void* sum, const float* alpha, const void* A, void* a, const float* beta,
                               const void* B, void* b, void* C, void* c, void* stream) {
    record("TransformSum %s", text(sum));
    record("TransformA %p %s", A, text(a));
    record("TransformB %p %s", B, text(b));
    record("TransformC %p %s", C, text(c));
    /* All that earlier calls made has ended, and this one's has not. */
    record("Live %d", made - ended);
    return record("TransformScalars %g %g", (double)*alpha, (double)*beta) || !handle || stream;
}
