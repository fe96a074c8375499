#include "status_json.h"

#include <algorithm>

#include "json_reader.h"

namespace nvml {
namespace {

using Reader = wire::JsonReader;

bool read_count(Reader& reader, double limit, double& value) {
    if (!reader.number(value)) return false;
    value = value >= 0 ? std::min(value, limit) : 0;
    return true;
}

std::string* text_field(Slice& slice, std::string_view key) {
    if (key == "name") return &slice.name;
    if (key == "uuid") return &slice.uuid;
    if (key == "device") return &slice.device;
    if (key == "driver_version") return &slice.driver_version;
    if (key == "compute_capability") return &slice.compute_capability;
    if (key == "pci_bus_id") return &slice.pci_bus_id;
    return nullptr;
}

bool read_field(Reader& reader, std::string_view key, Slice& slice) {
    if (std::string* text = text_field(slice, key))
        return reader.peek() == '"' ? reader.text(*text) : reader.skip();
    const bool is_count =
        key == "total_mib" || key == "used_mib" || key == "utilisation" || key == "cuda_version";
    const char begins = reader.peek();
    if (!is_count || !(begins == '-' || (begins >= '0' && begins <= '9'))) return reader.skip();
    double value = 0;
    if (!read_count(reader, key == "utilisation" ? 100 : 1e9, value)) return false;
    if (key == "total_mib") slice.total_mib = static_cast<uint64_t>(value);
    if (key == "used_mib") slice.used_mib = static_cast<uint64_t>(value);
    if (key == "utilisation") slice.utilisation = static_cast<uint32_t>(value);
    if (key == "cuda_version") slice.cuda_version = static_cast<uint32_t>(value);
    return true;
}

bool read_slice(Reader& reader, Slice& slice) {
    std::string key;
    if (!reader.take('{')) return false;
    if (reader.take('}')) return true;
    do {
        if (!reader.text(key) || !reader.take(':') || !read_field(reader, key, slice)) return false;
    } while (reader.take(','));
    return reader.take('}');
}

}  // namespace

bool parse_slices(std::string_view text, std::vector<Slice>& slices) {
    Reader reader(text);
    slices.clear();
    if (!reader.take('[')) return false;
    if (reader.take(']')) return reader.at_end();
    do {
        if (!read_slice(reader, slices.emplace_back())) return false;
    } while (reader.take(','));
    return reader.take(']') && reader.at_end();
}

}  // namespace nvml
