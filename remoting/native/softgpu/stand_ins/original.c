/* Where the original is: the program would find it by its name, were the stand-in not loaded under that name,
 * or looks for it among Python's packages. So the places are those of the system's loader, for each object
 * that is loaded (LD_LIBRARY_PATH, its RPATH and RUNPATH, the system's folders), then the packages, then a
 * CUDA toolkit. */
#include "original.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "text.h"

enum { OTHER_MAJOR = 12 + 13 - MAJOR };

const char kOriginalMissing[] =
    "NVIDIA's " STEM " was not found, which is what compiles for a software GPU too: pip install " WHEEL
    ", or put the folder of a CUDA toolkit's libraries on LD_LIBRARY_PATH";

/* What is looked for, and what was found. */
struct search {
    int major;
    void* library;
};

/* What marks a stand-in, this one, the other release's, or one of another installation. */
__attribute__((visibility("default"))) const char gkStandIn = 1;

/* What the original calls of its own is to be its own, not the stand-in's that is loaded before it.
 * AddressSanitizer's runtime ends a process that asks for that, and NVIDIA's of today does not need it. */
#ifdef __SANITIZE_ADDRESS__
enum { HOW = RTLD_NOW | RTLD_LOCAL };
#else
enum { HOW = RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND };
#endif

static void* open_original(const char* path) {
    void* library = dlopen(path, HOW);
    if (!library || !dlsym(library, "gkStandIn")) return library;
    dlclose(library);
    return NULL;
}

static void look_in_folder(struct search* search, const char* folder) {
    char path[4096];
    if (search->library) return;
    const int length = snprintf(path, sizeof path, "%s/" STEM ".so.%d", folder, search->major);
    if (length > 0 && (size_t)length < sizeof path && access(path, R_OK) == 0)
        search->library = open_original(path);
}

/* `pattern` has the folder's place as %.*s. */
static void look_in_folders(struct search* search, const char* pattern, const char* root, size_t length) {
    char folders[4096];
    glob_t found;
    if (search->library || length == 0 || length > sizeof folders / 2) return;
    snprintf(folders, sizeof folders, pattern, (int)length, root);
    if (glob(folders, 0, NULL, &found) != 0) return;
    for (size_t i = 0; i < found.gl_pathc; ++i) look_in_folder(search, found.gl_pathv[i]);
    globfree(&found);
}

/* NVIDIA's wheels: nvidia/cu13/lib, and nvidia/cuda_nvrtc/lib of CUDA 12. */
static void look_in_packages(struct search* search, const char* root, size_t length) {
    look_in_folders(search, "%.*s/nvidia/*/lib", root, length);
}

static void look_where_the_loader_looks(struct search* search, const char* object) {
    void* handle = dlopen(*object ? object : NULL, RTLD_LAZY | RTLD_NOLOAD);
    Dl_serinfo size;
    if (!handle) return;
    Dl_serinfo* places = NULL;
    if (dlinfo(handle, RTLD_DI_SERINFOSIZE, &size) == 0) places = malloc(size.dls_size);
    if (places && dlinfo(handle, RTLD_DI_SERINFOSIZE, places) == 0 &&
        dlinfo(handle, RTLD_DI_SERINFO, places) == 0) {
        for (unsigned i = 0; i < places->dls_cnt; ++i) {
            look_in_folder(search, places->dls_serpath[i].dls_name);
        }
    }
    free(places);
    dlclose(handle);
}

/* Only notes the name: while it runs, the loader is locked. */
static int note(struct dl_phdr_info* object, size_t size, void* names) {
    (void)size;
    text_append(names, object->dlpi_name, strlen(object->dlpi_name) + 1);
    return 0;
}

static void look_by_objects(struct search* search, const struct text* names) {
    static const char kPackages[] = "-packages/";
    const char* const end = names->bytes + names->length;
    for (const char* name = names->bytes; name < end && !search->library; name += strlen(name) + 1) {
        look_where_the_loader_looks(search, name);
    }
    for (const char* name = names->bytes; name < end && !search->library; name += strlen(name) + 1) {
        const char* packages = strstr(name, kPackages);
        if (packages) look_in_packages(search, name, (size_t)(packages - name) + sizeof kPackages - 2);
    }
}

static void look_by_variables(struct search* search) {
    static const char* const kToolkits[] = {"CUDA_HOME", "CUDA_PATH"};
    const char* at = getenv("GPU_KERNELS_PACKAGES"); /* set by startup/gpu_kernels_frameworks.py */
    while (at && *at) {
        const size_t length = strcspn(at, ":");
        look_in_packages(search, at, length);
        at += length + (at[length] == ':');
    }
    for (size_t i = 0; i < sizeof kToolkits / sizeof *kToolkits; ++i) {
        const char* toolkit = getenv(kToolkits[i]);
        if (toolkit) look_in_folders(search, "%.*s/lib64", toolkit, strlen(toolkit));
    }
    look_in_folder(search, "/usr/local/cuda/lib64");
}

static void* look_for(int major) {
    struct search search = {major, NULL};
    struct text names = {0};
    dl_iterate_phdr(note, &names);
    if (names.length > 0 && !names.failed) look_by_objects(&search, &names);
    text_free(&names);
    look_by_variables(&search);
    return search.library;
}

static void* original(void) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static void* library;
    pthread_mutex_lock(&mutex);
    if (!library) library = look_for(MAJOR);
    if (!library) library = look_for(OTHER_MAJOR);
    /* What ldconfig knows: by its short name, because by the other the stand-in is found. */
    if (!library) library = open_original(STEM ".so");
    void* const found = library;
    pthread_mutex_unlock(&mutex);
    return found;
}

void* original_function(const char* name) {
    void* library = original();
    return library ? dlsym(library, name) : NULL;
}

void* needed_function(const char* name) {
    static atomic_flag told = ATOMIC_FLAG_INIT;
    void* found = original_function(name);
    if (found || atomic_flag_test_and_set(&told)) return found;
    if (original()) {
        fprintf(stderr, "gpu-kernels: NVIDIA's " STEM " that is installed has no %s\n", name);
    } else {
        fprintf(stderr, "gpu-kernels: %s\n", kOriginalMissing);
    }
    return NULL;
}
