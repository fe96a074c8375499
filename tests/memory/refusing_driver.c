/* The software GPU, but that a copy between host and device fails, without anything being copied, as often as the file
 * REFUSALS says; and that an asynchronous copy in returns when it is done, as drivers may do with pageable memory. It is
 * what the worker takes for a real driver: what the software GPU offers beyond CUDA is hidden.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { COUNT = @COUNT@, OUT_OF_MEMORY = 2 };
typedef uint64_t u64;
static const char* const names[COUNT] = { @NAMES@ };
__attribute__((visibility("hidden"))) void* slots[COUNT];
static void* behind;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void fill(void) {
    behind = dlopen("@BEHIND@", RTLD_NOW | RTLD_LOCAL);
    if (!behind) abort();
    for (int i = 0; i < COUNT; ++i) slots[i] = dlsym(behind, names[i]);
}

#define REAL(name) ((int (*)())dlsym(behind, #name))

static int is_refused(void) {
    int left = 0;
    pthread_mutex_lock(&mutex);
    FILE* file = fopen("@REFUSALS@", "r+");
    if (file && fscanf(file, "%d", &left) == 1 && left > 0) {
        rewind(file);
        fprintf(file, "%-9d", left - 1);
    }
    if (file) fclose(file);
    pthread_mutex_unlock(&mutex);
    return left > 0;
}

int cuMemcpyHtoD_v2(u64 to, const void* from, size_t bytes) {
    return is_refused() ? OUT_OF_MEMORY : REAL(cuMemcpyHtoD_v2)(to, from, bytes);
}

int cuMemcpyHtoDAsync_v2(u64 to, const void* from, size_t bytes, u64 stream) {
    const int result = is_refused() ? OUT_OF_MEMORY : REAL(cuMemcpyHtoDAsync_v2)(to, from, bytes, stream);
    return result ? result : REAL(cuStreamSynchronize)(stream);
}

int cuMemcpyDtoHAsync_v2(void* to, u64 from, size_t bytes, u64 stream) {
    return is_refused() ? OUT_OF_MEMORY : REAL(cuMemcpyDtoHAsync_v2)(to, from, bytes, stream);
}
