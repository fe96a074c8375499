/* A library with the ABI of NVIDIA's cuRAND, as its public documentation has it, which computes nothing and
 * writes down what each function was given: for tests/libraries/test_nvidia.py. RECORDING_CUBLAS_LOG names
 * the file. */
#include "recording.h"

static uintptr_t generators = 70;

EXPORT curandCreateGenerator(void** generator, int kind) {
    *generator = (void*)++generators;
    return record("RandomCreate %zu %d", (size_t)*generator, kind);
}
EXPORT curandDestroyGenerator(void* generator) {
    return record("RandomDestroy %zu", (size_t)generator);
}
EXPORT curandSetStream(void* generator, void* stream) {
    return record("RandomStream %zu %s", (size_t)generator, stream ? "own" : "default");
}
EXPORT curandSetPseudoRandomGeneratorSeed(void* generator, unsigned long long seed) {
    return record("Seed %zu %llu", (size_t)generator, seed);
}
EXPORT curandSetGeneratorOffset(void* generator, unsigned long long offset) {
    return record("Offset %zu %llu", (size_t)generator, offset);
}
EXPORT curandSetGeneratorOrdering(void* generator, int ordering) {
    return record("Ordering %zu %d", (size_t)generator, ordering);
}
EXPORT curandSetQuasiRandomGeneratorDimensions(void* generator, unsigned dimensions) {
    return record("Dimensions %zu %u", (size_t)generator, dimensions);
}
EXPORT curandGenerate(void* generator, unsigned* output, size_t count) {
    /* Of so many numbers it knows nothing. */
    if (count == 1313) return 204;
    return record("Generate %zu %p %zu", (size_t)generator, (void*)output, count);
}
EXPORT curandGenerateUniformDouble(void* generator, double* output, size_t count) {
    return record("UniformDouble %zu %p %zu", (size_t)generator, (void*)output, count);
}
EXPORT curandGenerateNormal(void* generator, float* output, size_t count, float mean, float deviation) {
    return record("Normal %zu %p %zu %g %g", (size_t)generator, (void*)output, count, mean, deviation);
}
EXPORT curandGenerateLogNormalDouble(void* generator, double* output, size_t count, double mean,
                                     double deviation) {
    return record("LogNormalDouble %zu %p %zu %g %g", (size_t)generator, (void*)output, count, mean,
                  deviation);
}
EXPORT curandGeneratePoisson(void* generator, unsigned* output, size_t count, double lambda) {
    return record("Poisson %zu %p %zu %g", (size_t)generator, (void*)output, count, lambda);
}
