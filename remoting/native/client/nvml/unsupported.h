// NVML_UNSUPPORTED(name): a weak function, so that a definition anywhere in this library takes its place. It
// leaves its arguments alone, so it does not matter which they are.
#pragma once

int nvml_unsupported();

#define NVML_UNSUPPORTED(name)                                           \
    extern "C" __attribute__((visibility("default"), weak)) int name() { \
        return nvml_unsupported();                                       \
    }
