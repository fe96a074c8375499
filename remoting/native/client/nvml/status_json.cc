#include "status_json.h"

#include <algorithm>

#include "json/document.h"

namespace nvml {
namespace {

// An agent's number may be any: what is not a count is 0.
template <typename Count>
Count count(yyjson_val* object, const char* key, double limit) {
    return static_cast<Count>(std::clamp(json::number(object, key, 0), 0.0, limit));
}

Slice slice_of(yyjson_val* object) {
    return Slice{
        .name = json::text(object, "name"),
        .uuid = json::text(object, "uuid"),
        .device = json::text(object, "device"),
        .driver_version = json::text(object, "driver_version"),
        .compute_capability = json::text(object, "compute_capability"),
        .pci_bus_id = json::text(object, "pci_bus_id"),
        .total_mib = count<uint64_t>(object, "total_mib", 1e9),
        .used_mib = count<uint64_t>(object, "used_mib", 1e9),
        .utilisation = count<uint32_t>(object, "utilisation", 100),
        .cuda_version = count<uint32_t>(object, "cuda_version", 1e9),
    };
}

}  // namespace

bool parse_slices(std::string_view text, std::vector<Slice>& slices) {
    const json::Document document(text);
    slices.clear();
    if (!yyjson_is_arr(document.root())) return false;
    size_t at = 0, size = 0;
    yyjson_val* each = nullptr;
    yyjson_arr_foreach(document.root(), at, size, each) {
        if (!yyjson_is_obj(each)) return false;
        slices.push_back(slice_of(each));
    }
    return true;
}

}  // namespace nvml
