"""A driver with nothing newer than a CUDA version: another driver behind a library that hides the rest of it.

It is made of the headers' own table of which function came with which version. What is newer cannot be found
by dlsym, and cuGetProcAddress does not know it; what a software GPU offers beyond CUDA is hidden too.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCE = """
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
enum { VERSION = @VERSION@, COUNT = @COUNT@ };
static const char* const names[COUNT] = { @NAMES@ };
__attribute__((visibility("hidden"))) void* older_driver_slots[COUNT];
__attribute__((constructor)) static void fill(void) {
    void* behind = dlopen("@BEHIND@", RTLD_NOW | RTLD_LOCAL);
    if (!behind) abort();
    for (int i = 0; i < COUNT; ++i) older_driver_slots[i] = dlsym(behind, names[i]);
}
int cuDriverGetVersion(int* version) { *version = VERSION; return 0; }
typedef int (*LookUp)(const char*, void**, int, uint64_t, int*);
extern int older_driver_look_up(const char*, void**, int, uint64_t, int*);
int cuGetProcAddress_v2(const char* name, void** found, int version, uint64_t flags, int* status) {
    enum { NOT_FOUND = 1, TOO_OLD = 2 };
    int result = older_driver_look_up(name, found, version < VERSION ? version : VERSION, flags, status);
    if (status && *status == TOO_OLD && version >= VERSION) *status = NOT_FOUND;
    return result;
}
int cuGetProcAddress(const char* name, void** found, int version, uint64_t flags) {
    int status = 0;
    int result = cuGetProcAddress_v2(name, found, version, flags, &status);
    return result ? result : *found ? 0 : 500;
}
"""
OWN = {"cuDriverGetVersion", "cuGetProcAddress", "cuGetProcAddress_v2"}


def make_older_driver(folder: Path, behind: Path, version: int, since: dict[str, int]) -> Path:
    """``since``: the version that each symbol came with."""
    names = sorted(name for name, first in since.items() if first <= version and name not in OWN)
    text = SOURCE.replace("@VERSION@", str(version)).replace("@COUNT@", str(len(names) + 1))
    text = text.replace("@NAMES@", ", ".join(f'"{name}"' for name in [*names, "cuGetProcAddress_v2"]))
    text = text.replace("@BEHIND@", str(behind))
    jumps = [*names, "older_driver_look_up"]
    for i, name in enumerate(jumps):
        text += f'__asm__(".globl {name}\\n.type {name},@function\\n'
        text += f'{name}: jmp *older_driver_slots+{8 * i}(%rip)\\n");\n'
    source, library = folder / "older_driver.c", folder / "libcuda.so.1"
    source.write_text(text)
    subprocess.run(
        ["cc", "-shared", "-fPIC", "-O1", "-Wl,-soname,libcuda.so.1", source, "-o", library, "-ldl"],
        check=True,
    )
    return library
