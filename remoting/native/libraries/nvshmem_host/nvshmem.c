/* What NVSHMEM says before it is started. Starting it is refused, so all else that it has is of no use. */
#define NVSHMEM_EXPORT __attribute__((visibility("default")))

NVSHMEM_EXPORT int nvshmemid_init_status(void) {
    return 0; /* not initialised */
}

/* Of the specification (OpenSHMEM's), and of the library. */
NVSHMEM_EXPORT void nvshmem_info_get_version(int* major, int* minor) {
    *major = 1;
    *minor = 3;
}

NVSHMEM_EXPORT void nvshmemx_vendor_get_version_info(int* major, int* minor, int* patch) {
    const int version[] = {LIBRARY_VERSION};
    *major = version[0];
    *minor = version[1];
    *patch = version[2];
}
