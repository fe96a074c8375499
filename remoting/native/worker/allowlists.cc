#include "allowlists.h"

namespace worker {

std::optional<size_t> launch_attribute_bytes(uint32_t id) {
    using Value = CUlaunchAttributeValue;
    switch (id) {
        case CU_LAUNCH_ATTRIBUTE_IGNORE:
            return 0;
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
            return sizeof(Value::cooperative);
        case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
            return sizeof(Value::syncPolicy);
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
            return sizeof(Value::clusterDim);
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
            return sizeof(Value::clusterSchedulingPolicyPreference);
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
            return sizeof(Value::programmaticStreamSerializationAllowed);
        case CU_LAUNCH_ATTRIBUTE_PRIORITY:
            return sizeof(Value::priority);
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
            return sizeof(Value::memSyncDomainMap);
        case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
            return sizeof(Value::memSyncDomain);
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
            return sizeof(Value::preferredClusterDim);
        case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
            return sizeof(Value::sharedMemCarveout);
        default:
            return std::nullopt;
    }
}

bool function_attribute_allowed(uint32_t attribute) {
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
        case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
        case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
            return true;
        default:
            return false;
    }
}

bool access_allowed(uint32_t flags) {
    return flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
           flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

}  // namespace worker
