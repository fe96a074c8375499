// Writes down which functions of NVIDIA's maths libraries a program calls: the dynamic linker tells an audit library
// (rtld-audit(7)) of each name when it is bound, which frameworks leave to the first call.
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char* const kLibraries[] = {"libcublas.so",   "libcublasLt.so",   "libcudnn.so",    "libcufft.so",
                                         "libcurand.so",   "libcusolver.so",   "libcusparse.so", "libcupti.so",
                                         "libcusolverMg.so", "libcusparseLt.so", "libnccl.so",     "libcufile.so"};

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
    const char* log = getenv("GPU_KERNELS_RECORDED_CALLS");
    if (log && is_recorded(library) && !is_recorded((const struct link_map*)*from)) {
        char line[256];
        const int bytes = snprintf(line, sizeof line, "%s %s\n", base_name(library), name);
        const int fd = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
        if (fd >= 0 && bytes > 0 && bytes < (int)sizeof line && write(fd, line, (size_t)bytes) < 0) abort();
        if (fd >= 0) close(fd);
    }
    return symbol->st_value;
}
