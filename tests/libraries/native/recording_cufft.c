/* A library with the ABI of NVIDIA's cuFFT, as its public documentation has it, which computes nothing and writes down
 * what each function was given: for tests/libraries/test_nvidia.py. RECORDING_CUFFT_LOG names the file. */
#define RECORDING_LOG "RECORDING_CUFFT_LOG"
#include "recording.h"

enum { kWorkArea = 3 << 20 };

static int plans = 70;

/* A layout, or that there is none. */
static const char* layout(int rank, const long long* embed, long long stride, long long distance, char* text) {
    if (!embed) return "dense";
    int at = 0;
    for (int i = 0; i < rank; ++i) at += sprintf(text + at, "%lld,", embed[i]);
    sprintf(text + at, "%lld,%lld", stride, distance);
    return text;
}

EXPORT cufftCreate(int* plan) {
    *plan = ++plans;
    return record("create %d", *plan);
}
EXPORT cufftDestroy(int plan) {
    return record("destroy %d", plan);
}
EXPORT cufftSetAutoAllocation(int plan, int on) {
    return record("allocation %d %d", plan, on);
}
EXPORT cufftSetStream(int plan, void* stream) {
    return record("stream %d %s", plan, stream ? "own" : "default");
}
EXPORT cufftSetWorkArea(int plan, void* area) {
    return record("area %d %p", plan, area);
}
EXPORT cufftXtMakePlanMany(int plan, int rank, long long* n, long long* inembed, long long istride, long long idist,
                           int input, long long* onembed, long long ostride, long long odist, int output, long long batch,
                           size_t* bytes, int execution) {
    char sizes[200], before[200], after[200];
    layout(rank, n, batch, 0, sizes);
    /* Of a first dimension that is a prime it knows nothing. */
    if (n[0] == 13) return 16;
    *bytes = rank > 1 ? kWorkArea : 0;
    return record("make %d %d %s %s %d %s %d %d", plan, rank, sizes, layout(rank, inembed, istride, idist, before), input,
                  layout(rank, onembed, ostride, odist, after), output, execution);
}
EXPORT cufftXtExec(int plan, void* input, void* output, int direction) {
    return record("exec %d %p %p %d", plan, input, output, direction);
}
