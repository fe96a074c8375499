#include "placement.h"

namespace front {

void require_done(bool done, const char* name) {
    if (done) return;
    gk_unsupported(name);
    refuse(CUDA_ERROR_NOT_SUPPORTED);
}

Access access_of(const CUmemAccessDesc& asked) {
    require_done(asked.location.type == CU_MEM_LOCATION_TYPE_DEVICE,
                 "access to device memory from a place that is not a device");
    platform::require_device(asked.location.id);
    require_done(asked.flags != CU_MEM_ACCESS_FLAGS_PROT_READ, "access to device memory for reading only");
    require(asked.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ||
            asked.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    return {asked.location.id, asked.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

}  // namespace front
