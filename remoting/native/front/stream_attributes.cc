// Attributes of streams: hints to a GPU's caches and to how a thread waits. They are kept for who asks; the
// priority is the stream's own, which cannot change here once it is made. They are kept by the stream's
// number: the program names one stream in several ways, several threads name theirs in one, and a handle may
// be another stream's later.
#include "stream_attributes.h"

#include <climits>
#include <cstring>
#include <map>
#include <mutex>

#include "cuda_abi.h"

namespace {

using Number = unsigned long long;
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

CUresult keep(Number stream, CUstreamAttrID attribute, const CUstreamAttrValue& value) {
    const std::lock_guard lock(kept().mutex);
    if (kept().values.size() >= kMost) return CUDA_ERROR_OUT_OF_MEMORY;
    kept().values[{stream, static_cast<int>(attribute)}] = value;
    return CUDA_SUCCESS;
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

extern "C" {

CUresult cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue* value_out) {
    Number number = 0;
    if (CUresult error = cuStreamGetId(hStream, &number)) return error;
    if (!value_out) return CUDA_ERROR_INVALID_VALUE;
    if (attr == CU_STREAM_ATTRIBUTE_PRIORITY) {
        int priority = 0;
        if (CUresult error = cuStreamGetPriority(hStream, &priority)) return error;
        std::memset(value_out, 0, sizeof *value_out);
        value_out->priority = priority;
        return CUDA_SUCCESS;
    }
    if (!is_hint(attr)) return CUDA_ERROR_NOT_SUPPORTED;
    *value_out = value_of(number, attr);
    return CUDA_SUCCESS;
}

CUresult cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue* value) {
    Number number = 0;
    if (CUresult error = cuStreamGetId(hStream, &number)) return error;
    if (!value) return CUDA_ERROR_INVALID_VALUE;
    if (!is_hint(attr)) return CUDA_ERROR_NOT_SUPPORTED;
    return keep(number, attr, *value);
}

CUresult cuStreamCopyAttributes(CUstream dst, CUstream src) {
    Number to = 0, from = 0;
    if (CUresult error = cuStreamGetId(dst, &to)) return error;
    if (CUresult error = cuStreamGetId(src, &from)) return error;
    for (const CUstreamAttrID attribute : kHints) {
        if (CUresult error = keep(to, attribute, value_of(from, attribute))) return error;
    }
    return CUDA_SUCCESS;
}
}
