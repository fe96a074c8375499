// Entry points: the launch attributes of kernel nodes.
#include <algorithm>

#include "arguments.h"

using namespace graphs;

namespace {

CUlaunchAttribute* find(std::vector<CUlaunchAttribute>& attributes, CUlaunchAttributeID id) {
    auto found =
        std::find_if(attributes.begin(), attributes.end(), [&](const auto& a) { return a.id == id; });
    return found == attributes.end() ? nullptr : &*found;
}

}  // namespace

extern "C" {

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                       CUkernelNodeAttrValue* value_out) {
    return call([&] {
        require(value_out != nullptr && attr <= CU_LAUNCH_ATTRIBUTE_PORTABLE_CLUSTER_SIZE_MODE);
        const NodeRef node = find_node(hNode);
        const CUlaunchAttribute* set = find(params_of<KernelParams>(*node).attributes, attr);
        *value_out = set ? set->value : CUlaunchAttributeValue{};
    });
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                       const CUkernelNodeAttrValue* value) {
    return call([&] {
        require(value != nullptr);
        const NodeRef node = find_node(hNode);
        KernelParams changed = params_of<KernelParams>(*node);
        if (CUlaunchAttribute* set = find(changed.attributes, attr)) {
            set->value = *value;
        } else {
            CUlaunchAttribute fresh{};
            fresh.id = attr;
            fresh.value = *value;
            changed.attributes.push_back(fresh);
        }
        platform::check(changed);
        params_of<KernelParams>(*node) = std::move(changed);
    });
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src) {
    return call([&] {
        const NodeRef from = find_node(src), to = find_node(dst);
        KernelParams changed = params_of<KernelParams>(*to);
        changed.attributes = params_of<KernelParams>(*from).attributes;
        platform::check(changed);
        params_of<KernelParams>(*to) = std::move(changed);
    });
}
}
