/* A driver that holds more memory than programs have asked it for, as a real one does, in front of the software GPU,
 * which holds exactly that. It is what the worker takes for a real driver: what the software GPU offers beyond
 * CUDA is hidden.
 *
 *   a context      costs CONTEXT_MIB
 *   a pool         reserves whole units of 2 MiB, keeps what was freed up to its release threshold, and notices frees
 *                  that have been executed only when somebody synchronises or trims
 *   a launch       makes room for the kernel's local memory, once for each thread that can run, and keeps it
 *   a link         is compiled by NVIDIA's own compiler (nvJitLink), and so is text that is loaded: what
 *                  the variables of the result take, the driver takes
 *
 * Each process writes what it holds to HELD_FOLDER/PID, where memory of the GPU is looked up by all of them and by a
 * stand-in for NVML. A GPU that is full answers OUT_OF_MEMORY.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = @COUNT@, UNIT = 2 << 20, MOST = 4096 };
enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_PTX = 218, NOT_READY = 600 };
enum { RELEASE_THRESHOLD = 4, RESERVED = 5, LOCAL_SIZE = 3, MULTIPROCESSORS = 16, THREADS_OF_ONE = 39 };
typedef uint64_t u64;
static const char* const names[COUNT] = { @NAMES@ };
__attribute__((visibility("hidden"))) void* slots[COUNT];
static void* behind;

struct Pool { u64 handle, reserved, used, threshold; };
struct Piece { u64 address, bytes, pool, mark; int freed; };
struct Linked { void* cubin; size_t bytes; char* text; };
struct Library { u64 handle, bytes; };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct Pool pools[MOST];
static struct Piece pieces[MOST];
static struct Linked linked[MOST];
static struct Library libraries[MOST];
static u64 context_bytes, local_bytes, other_bytes;

__attribute__((constructor)) static void fill(void) {
    behind = dlopen("@BEHIND@", RTLD_NOW | RTLD_LOCAL);
    if (!behind) abort();
    for (int i = 0; i < COUNT; ++i) slots[i] = dlsym(behind, names[i]);
}

#define REAL(name) ((int (*)())dlsym(behind, #name))

static u64 whole_units(u64 bytes) { return (bytes + UNIT - 1) / UNIT * UNIT; }

static u64 held(void) {
    u64 all = context_bytes + local_bytes + other_bytes;
    for (int i = 0; i < MOST; ++i) all += pools[i].reserved + libraries[i].bytes;
    for (int i = 0; i < MOST; ++i) if (pieces[i].address && !pieces[i].pool) all += pieces[i].bytes;
    return all;
}

static u64 held_by_others(void) {
    u64 all = 0;
    DIR* folder = opendir("@HELD_FOLDER@");
    for (struct dirent* entry; folder && (entry = readdir(folder));) {
        const int pid = atoi(entry->d_name);
        char path[512];
        snprintf(path, sizeof path, "/proc/%d", pid);
        if (pid <= 0 || pid == getpid() || access(path, F_OK)) continue;
        unsigned long long bytes = 0;
        snprintf(path, sizeof path, "@HELD_FOLDER@/%d", pid);
        FILE* file = fopen(path, "r");
        if (!file) continue;
        if (fscanf(file, "%llu", &bytes) == 1) all += bytes;
        fclose(file);
    }
    if (folder) closedir(folder);
    return all;
}

static void tell(void) {
    char path[512], fresh[544];
    snprintf(path, sizeof path, "@HELD_FOLDER@/%d", getpid());
    snprintf(fresh, sizeof fresh, "@HELD_FOLDER@/.%d", getpid());
    FILE* file = fopen(fresh, "w");
    if (!file) return;
    fprintf(file, "%llu\n", (unsigned long long)held());
    fclose(file);
    rename(fresh, path);
}

/* Whether the GPU has as much. */
static int fits(u64 bytes) { return held() + held_by_others() + bytes <= (u64)@TOTAL_MIB@ << 20; }

static struct Pool* pool_of(u64 handle) {
    for (int i = 0; i < MOST; ++i) if (pools[i].handle == handle) return &pools[i];
    for (int i = 0; i < MOST; ++i) {
        if (pools[i].handle) continue;
        pools[i] = (struct Pool){handle, 0, 0, 0};
        return &pools[i];
    }
    abort();
}

static struct Piece* piece_at(u64 address) {
    for (int i = 0; i < MOST; ++i) if (pieces[i].address == address && !pieces[i].freed) return &pieces[i];
    return NULL;
}

static void add_piece(u64 address, u64 bytes, u64 pool) {
    for (int i = 0; i < MOST; ++i) {
        if (pieces[i].address) continue;
        pieces[i] = (struct Piece){address, bytes, pool, 0, 0};
        return;
    }
    abort();
}

static void drop_piece(struct Piece* piece) {
    if (piece->pool) pool_of(piece->pool)->used -= piece->bytes;
    if (piece->mark) REAL(cuEventDestroy_v2)(piece->mark);
    *piece = (struct Piece){0};
}

/* What a driver does when somebody synchronises. */
static void notice(void) {
    for (int i = 0; i < MOST; ++i) {
        if (pieces[i].freed && REAL(cuEventQuery)(pieces[i].mark) == OK) drop_piece(&pieces[i]);
    }
    for (int i = 0; i < MOST; ++i) {
        struct Pool* pool = &pools[i];
        const u64 used = whole_units(pool->used);
        const u64 keep = pool->reserved < pool->threshold ? pool->reserved : pool->threshold;
        pool->reserved = used > keep ? used : keep;
    }
    tell();
}

static int synchronised(int result) {
    pthread_mutex_lock(&mutex);
    notice();
    pthread_mutex_unlock(&mutex);
    return result;
}

int cuDevicePrimaryCtxRetain(u64* context, int device) {
    const int result = REAL(cuDevicePrimaryCtxRetain)(context, device);
    pthread_mutex_lock(&mutex);
    const u64 bytes = (u64)@CONTEXT_MIB@ << 20;
    const int full = !context_bytes && !fits(bytes);
    if (result == OK && !full) context_bytes = bytes;
    tell();
    pthread_mutex_unlock(&mutex);
    return full ? OUT_OF_MEMORY : result;
}

int cuMemGetInfo_v2(u64* free_bytes, u64* total) {
    pthread_mutex_lock(&mutex);
    const u64 all = held() + held_by_others();
    pthread_mutex_unlock(&mutex);
    *total = (u64)@TOTAL_MIB@ << 20;
    *free_bytes = all > *total ? 0 : *total - all;
    return OK;
}

int cuMemAlloc_v2(u64* address, u64 bytes) {
    pthread_mutex_lock(&mutex);
    int result = fits(bytes) ? REAL(cuMemAlloc_v2)(address, bytes) : OUT_OF_MEMORY;
    if (result == OK) add_piece(*address, bytes, 0);
    tell();
    pthread_mutex_unlock(&mutex);
    return result;
}

int cuMemFree_v2(u64 address) {
    const int result = REAL(cuMemFree_v2)(address);
    pthread_mutex_lock(&mutex);
    struct Piece* piece = piece_at(address);
    if (result == OK && piece) drop_piece(piece);
    notice();
    pthread_mutex_unlock(&mutex);
    return result;
}

int cuMemAllocFromPoolAsync(u64* address, u64 bytes, u64 handle, u64 stream) {
    pthread_mutex_lock(&mutex);
    struct Pool* pool = pool_of(handle);
    const u64 needed = whole_units(pool->used + bytes);
    const u64 more = needed > pool->reserved ? needed - pool->reserved : 0;
    const int result = fits(more) ? REAL(cuMemAllocFromPoolAsync)(address, bytes, handle, stream) : OUT_OF_MEMORY;
    if (result == OK) {
        pool->reserved += more;
        pool->used += bytes;
        add_piece(*address, bytes, handle);
    }
    tell();
    pthread_mutex_unlock(&mutex);
    return result;
}

int cuMemFreeAsync(u64 address, u64 stream) {
    pthread_mutex_lock(&mutex);
    struct Piece* piece = piece_at(address);
    int result = REAL(cuMemFreeAsync)(address, stream);
    if (result == OK && piece) {
        REAL(cuEventCreate)(&piece->mark, 2);
        result = REAL(cuEventRecord)(piece->mark, stream);
        piece->freed = 1;
    }
    pthread_mutex_unlock(&mutex);
    return result;
}

int cuMemPoolSetAttribute(u64 handle, int attribute, void* value) {
    pthread_mutex_lock(&mutex);
    if (attribute == RELEASE_THRESHOLD) pool_of(handle)->threshold = *(u64*)value;
    pthread_mutex_unlock(&mutex);
    return REAL(cuMemPoolSetAttribute)(handle, attribute, value);
}

int cuMemPoolGetAttribute(u64 handle, int attribute, void* value) {
    if (attribute != RESERVED) return REAL(cuMemPoolGetAttribute)(handle, attribute, value);
    pthread_mutex_lock(&mutex);
    *(u64*)value = pool_of(handle)->reserved;
    pthread_mutex_unlock(&mutex);
    return OK;
}

int cuMemPoolTrimTo(u64 handle, u64 keep) {
    pthread_mutex_lock(&mutex);
    struct Pool* pool = pool_of(handle);
    const u64 threshold = pool->threshold;
    pool->threshold = keep;
    notice();
    pool->threshold = threshold;
    pthread_mutex_unlock(&mutex);
    return OK;
}

int cuMemPoolDestroy(u64 handle) {
    pthread_mutex_lock(&mutex);
    notice();
    struct Pool* pool = pool_of(handle);
    other_bytes += whole_units(pool->used);
    *pool = (struct Pool){0};
    tell();
    pthread_mutex_unlock(&mutex);
    return REAL(cuMemPoolDestroy)(handle);
}

int cuStreamSynchronize(u64 stream) { return synchronised(REAL(cuStreamSynchronize)(stream)); }
int cuEventSynchronize(u64 event) { return synchronised(REAL(cuEventSynchronize)(event)); }
int cuCtxSynchronize(void) { return synchronised(REAL(cuCtxSynchronize)()); }

static int make_room(u64 kernel) {
    int frame = 0, multiprocessors = 0, threads = 0;
    REAL(cuKernelGetAttribute)(&frame, LOCAL_SIZE, kernel, 0);
    REAL(cuDeviceGetAttribute)(&multiprocessors, MULTIPROCESSORS, 0);
    REAL(cuDeviceGetAttribute)(&threads, THREADS_OF_ONE, 0);
    const u64 needed = (u64)frame * (u64)multiprocessors * (u64)threads;
    pthread_mutex_lock(&mutex);
    const int result = needed <= local_bytes || fits(needed - local_bytes) ? OK : OUT_OF_MEMORY;
    if (result == OK && needed > local_bytes) local_bytes = needed;
    tell();
    pthread_mutex_unlock(&mutex);
    return result;
}

int cuLaunchKernel(u64 f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   u64 stream, void** params, void** extra) {
    const int result = make_room(f);
    return result ? result : REAL(cuLaunchKernel)(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
}

int cuLaunchKernelEx(const void* config, u64 f, void** params, void** extra) {
    const int result = make_room(f);
    return result ? result : REAL(cuLaunchKernelEx)(config, f, params, extra);
}

/* The first member of a kernel node's parameters is its function. */
int cuGraphAddKernelNode_v2(u64* node, u64 graph, const u64* after, size_t count, const u64* params) {
    const int result = make_room(params[0]);
    return result ? result : REAL(cuGraphAddKernelNode_v2)(node, graph, after, count, params);
}

/* NVIDIA's compiler. */
static int compile(const char* text, void** cubin, size_t* bytes) {
    static void* library;
    if (!library) library = dlopen("@NVJITLINK@", RTLD_NOW | RTLD_LOCAL);
    if (!library) return INVALID_PTX;
#define JIT(name) ((int (*)())dlsym(library, "__nvJitLink" #name "_13_0"))
    void* link = NULL;
    const char* options[] = {"-arch=sm_75"};
    if (JIT(Create)(&link, 1, options)) return INVALID_PTX;
    int failed = JIT(AddData)(link, 2, text, strlen(text) + 1, "text") || JIT(Complete)(link) ||
                 JIT(GetLinkedCubinSize)(link, bytes);
    if (!failed) {
        *cubin = calloc(1, *bytes);
        failed = JIT(GetLinkedCubin)(link, *cubin);
    }
    JIT(Destroy)(&link);
    return failed ? INVALID_PTX : OK;
}

/* Of an ELF file's sections of global variables without contents. */
static u64 variables(const char* cubin) {
    const u64 table = *(const u64*)(cubin + 40);
    const unsigned size = *(const uint16_t*)(cubin + 58), count = *(const uint16_t*)(cubin + 60);
    const unsigned strings = *(const uint16_t*)(cubin + 62);
    const char* text = cubin + *(const u64*)(cubin + table + strings * size + 24);
    u64 all = 0;
    for (unsigned i = 0; i < count; ++i) {
        const char* section = cubin + table + i * size;
        const int nobits = *(const uint32_t*)(section + 4) == 8;
        if (nobits && !strcmp(text + *(const uint32_t*)section, ".nv.global")) all += *(const u64*)(section + 32);
    }
    return all;
}

struct Link { char* text; };

int cuLinkCreate_v2(unsigned count, int* options, void** values, struct Link** link) {
    (void)count, (void)options, (void)values;
    *link = calloc(1, sizeof **link);
    return OK;
}

int cuLinkAddData_v2(struct Link* link, int type, const char* data, size_t bytes, const char* name, unsigned count,
                     int* options, void** values) {
    (void)type, (void)name, (void)count, (void)options, (void)values;
    free(link->text);
    link->text = strndup(data, bytes);
    return OK;
}

int cuLinkComplete(struct Link* link, void** image, size_t* bytes) {
    if (!link->text || compile(link->text, image, bytes)) return INVALID_PTX;
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < MOST; ++i) {
        if (linked[i].cubin) continue;
        linked[i] = (struct Linked){*image, *bytes, strdup(link->text)};
        break;
    }
    pthread_mutex_unlock(&mutex);
    return OK;
}

int cuLinkDestroy(struct Link* link) {
    free(link->text);
    free(link);
    return OK;
}

int cuLibraryLoadData(u64* library, const char* image, int* options, void** values, unsigned count, void* more,
                      void** more_values, unsigned more_count) {
    const char* text = image;
    void* cubin = NULL;
    size_t bytes = 0;
    u64 taken = 0;
    pthread_mutex_lock(&mutex);
    if (!memcmp(image, "\177ELF", 4)) {
        for (int i = 0; i < MOST && linked[i].cubin; ++i) {
            if (!memcmp(image, linked[i].cubin, linked[i].bytes)) text = linked[i].text;
        }
        taken = variables(image);
    } else if (compile(text, &cubin, &bytes) == OK) {
        taken = variables(cubin);
        free(cubin);
    }
    int result = fits(taken) ? REAL(cuLibraryLoadData)(library, text, options, values, count, more, more_values, more_count)
                             : OUT_OF_MEMORY;
    for (int i = 0; i < MOST && result == OK; ++i) {
        if (libraries[i].handle) continue;
        libraries[i] = (struct Library){*library, taken};
        break;
    }
    tell();
    pthread_mutex_unlock(&mutex);
    return result;
}

int cuLibraryUnload(u64 library) {
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < MOST; ++i) if (libraries[i].handle == library) libraries[i] = (struct Library){0};
    tell();
    pthread_mutex_unlock(&mutex);
    return REAL(cuLibraryUnload)(library);
}
