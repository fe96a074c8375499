// Attributes of streams: hints to a GPU's caches and to how a thread waits. They are kept for who asks; the
// priority is the stream's own, which cannot change here once it is made. They are kept by the stream's
// number: the program names one stream in several ways, several threads name theirs in one, and a handle may
// be another stream's later.
#include "stream_attributes.h"

#include <climits>
#include <cstring>
#include <map>
#include <mutex>

#include "platform.h"

namespace {

using Number = uint64_t;
using Key = std::pair<Number, int>;

struct Kept {
    std::mutex mutex;
    std::map<Key, CUstreamAttrValue> values;
};

Kept& kept() {
    static auto* all = new Kept;
    return *all;
}

constexpr size_t kMost = 1 << 16;
constexpr CUstreamAttrID kHints[] = {CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW,
                                     CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY};

bool is_hint(CUstreamAttrID attribute) {
    return attribute == kHints[0] || attribute == kHints[1];
}

CUstreamAttrValue value_of(Number stream, CUstreamAttrID attribute) {
    const std::lock_guard lock(kept().mutex);
    const auto found = kept().values.find({stream, static_cast<int>(attribute)});
    if (found != kept().values.end()) return found->second;
    CUstreamAttrValue fresh;
    std::memset(&fresh, 0, sizeof fresh);
    if (attribute == CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY) fresh.syncPolicy = CU_SYNC_POLICY_AUTO;
    return fresh;
}

void keep(Number stream, CUstreamAttrID attribute, const CUstreamAttrValue& value) {
    const std::lock_guard lock(kept().mutex);
    front::require(kept().values.size() < kMost, CUDA_ERROR_OUT_OF_MEMORY);
    kept().values[{stream, static_cast<int>(attribute)}] = value;
}

}  // namespace

namespace front {

void forget_stream_attributes(uint64_t stream) noexcept {
    const std::lock_guard lock(kept().mutex);
    auto& values = kept().values;
    values.erase(values.lower_bound({stream, INT_MIN}), values.upper_bound({stream, INT_MAX}));
}

void forget_stream_attributes_if(const std::function<bool(uint64_t stream)>& ended) {
    const std::lock_guard lock(kept().mutex);
    std::erase_if(kept().values, [&](const auto& one) { return ended(one.first.first); });
}

}  // namespace front

using namespace front;

extern "C" {

CUresult cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue* value_out) {
    return call([&] {
        const Stream stream = platform::stream(hStream);
        require(value_out != nullptr);
        if (attr == CU_STREAM_ATTRIBUTE_PRIORITY) {
            std::memset(value_out, 0, sizeof *value_out);
            value_out->priority = stream.priority;
            return;
        }
        require(is_hint(attr), CUDA_ERROR_NOT_SUPPORTED);
        *value_out = value_of(stream.number, attr);
    });
}

CUresult cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue* value) {
    return call([&] {
        const Stream stream = platform::stream(hStream);
        require(value != nullptr);
        require(is_hint(attr), CUDA_ERROR_NOT_SUPPORTED);
        keep(stream.number, attr, *value);
    });
}

CUresult cuStreamCopyAttributes(CUstream dst, CUstream src) {
    return call([&] {
        const Number to = platform::stream(dst).number, from = platform::stream(src).number;
        for (const CUstreamAttrID attribute : kHints) keep(to, attribute, value_of(from, attribute));
    });
}
}
