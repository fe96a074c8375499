// Channel descriptions: plain data, that programs make without a device too.
#include "abi.h"

extern "C" cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind f) {
    return {x, y, z, w, f};
}
