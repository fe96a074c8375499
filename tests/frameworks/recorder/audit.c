// Writes down which functions of NVIDIA's maths libraries a program calls. The dynamic linker tells an audit
// library (rtld-audit(7)) of each name that is bound and asks for the address; programs that bind all names
// at once call few of them. So each gets a few instructions of its own, which note the call and jump on.
// x86-64 only.
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char* const kLibraries[] = {"libcublas.so",     "libcublasLt.so", "libcudnn.so",
                                         "libcufft.so",      "libcurand.so",   "libcusolver.so",
                                         "libcusparse.so",   "libcupti.so",    "libcusolverMg.so",
                                         "libcusparseLt.so", "libnccl.so",     "libcufile.so"};

// PyTorch's kernels are machine code, which no software GPU has: with GPU_KERNELS_RECORDED_WITHOUT_KERNELS
// what looks for a kernel or launches it does nothing and succeeds, so that a program comes to the library
// calls behind it. What computes in a library does nothing either, since kernels write its arrays of
// pointers. Numbers mean nothing then.
static const char* const kOfKernels[] = {
    "cudaLaunchKernel",   "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel",
    "__cudaLaunchKernel", "__cudaGetKernel",     "cudaFuncSetAttribute",
    "cuLaunchKernel",     "cuLaunchKernelEx",    "__cudaLaunchKernel_ptsz"};

// Names of functions that do not compute have one of these.
static const char* const kKept[] = {"Create", "Destroy", "Set",  "Get",     "Size",  "Init",      "Version",
                                    "create", "destroy", "Plan", "Backend", "Descr", "Algorithm", "Find"};

// The log is a file of these, which all processes of a program map: a call survives a crash.
struct Record {
    volatile uint8_t is_called;
    char name[127];
};
enum { kMost = 8192, kBytesOfCode = 32 };

static struct Record* records;
static uint8_t* code;
static size_t used;
static atomic_flag is_noting = ATOMIC_FLAG_INIT;  // names are bound in any thread

static const char* base_name(const struct link_map* map) {
    const char* slash = strrchr(map->l_name, '/');
    return slash ? slash + 1 : map->l_name;
}

static int is_recorded(const struct link_map* map) {
    const char* name = base_name(map);
    for (size_t i = 0; i < sizeof kLibraries / sizeof *kLibraries; ++i)
        if (strncmp(name, kLibraries[i], strlen(kLibraries[i])) == 0) return 1;
    return 0;
}

static int nothing(void) {
    return 0;
}

static int is_of_kernels(const char* name) {
    for (size_t i = 0; i < sizeof kOfKernels / sizeof *kOfKernels; ++i)
        if (strcmp(name, kOfKernels[i]) == 0) return 1;
    return 0;
}

static int computes(const char* name) {
    if (strcmp(name, "cudnnBackendExecute") == 0) return 1;
    for (size_t i = 0; i < sizeof kKept / sizeof *kKept; ++i)
        if (strstr(name, kKept[i])) return 0;
    return 1;
}

static void open_log(void) {
    char path[4096];
    const char* log = getenv("GPU_KERNELS_RECORDED_CALLS");
    if (!log || snprintf(path, sizeof path, "%s.%d", log, (int)getpid()) >= (int)sizeof path) abort();
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, kMost * sizeof(struct Record)) != 0) abort();
    records = mmap(NULL, kMost * sizeof(struct Record), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    code = mmap(NULL, kMost * kBytesOfCode, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
                -1, 0);
    if (records == MAP_FAILED || code == MAP_FAILED) abort();
    close(fd);
}

// Through r11, which no call passes anything in.
static uintptr_t noting(const char* library, const char* name, uintptr_t function) {
    while (atomic_flag_test_and_set(&is_noting)) continue;
    if (!records) open_log();
    if (used == kMost) abort();
    struct Record* const record = &records[used];
    uint8_t* const at = code + used++ * kBytesOfCode;
    atomic_flag_clear(&is_noting);
    snprintf(record->name, sizeof record->name, "%s %s", library, name);
    const uintptr_t flag = (uintptr_t)&record->is_called;
    memcpy(at, "\x49\xbb", 2);  // movabs r11, flag
    memcpy(at + 2, &flag, 8);
    memcpy(at + 10, "\x41\xc6\x03\x01\x49\xbb", 6);  // mov byte [r11], 1; movabs r11, function
    memcpy(at + 16, &function, 8);
    memcpy(at + 24, "\x41\xff\xe3", 3);  // jmp r11
    return (uintptr_t)at;
}

unsigned la_version(unsigned version) {
    return version;
}

unsigned la_objopen(struct link_map* map, Lmid_t id, uintptr_t* cookie) {
    (void)id;
    *cookie = (uintptr_t)map;
    return LA_FLG_BINDTO | LA_FLG_BINDFROM;
}

uintptr_t la_symbind64(Elf64_Sym* symbol, unsigned index, uintptr_t* from, uintptr_t* to, unsigned* flags,
                       const char* name) {
    (void)index;
    (void)flags;
    const struct link_map* library = (const struct link_map*)*to;
    const int nothing_runs = getenv("GPU_KERNELS_RECORDED_WITHOUT_KERNELS") != NULL;
    if (nothing_runs && is_of_kernels(name)) return (uintptr_t)nothing;
    if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || !is_recorded(library) ||
        is_recorded((const struct link_map*)*from))
        return symbol->st_value;
    return noting(base_name(library), name,
                  nothing_runs && computes(name) ? (uintptr_t)nothing : symbol->st_value);
}
