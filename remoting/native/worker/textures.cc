#include "textures.h"

#include <algorithm>

#include "handlers.h"
#include "in_context.h"
#include "texture_desc.h"

namespace worker {
namespace {

// What the client says of a resource, with the driver's handle in place of its own.
struct Resource {
    CUDA_RESOURCE_DESC given{};
    cuda::TextureResource found{};
    uint8_t device = 0;
    std::shared_ptr<const ArrayMemory> array{};
};

auto limits_of(const Context& context) {
    const wire::DeviceSnapshot& device = context.worker().devices[context.device()].snapshot;
    return [&device](CUdevice_attribute attribute) {
        const bool known = device.attribute_status[attribute] == CUDA_SUCCESS;
        return std::max(known ? device.attributes[attribute] : 0, 1);  // alignments are divided by
    };
}

CUresult find_memory(const Context& context, Resource& resource) {
    if (CUresult error = cuda::check_memory(resource.given, limits_of(context), resource.found)) return error;
    const cuda::texture_desc::Extent& extent = resource.found.extent;
    const auto device = context.worker().memory.device_of(extent.address, extent.bytes);
    if (!device) return CUDA_ERROR_INVALID_VALUE;
    resource.device = *device;
    return CUDA_SUCCESS;
}

template <typename Found>
CUresult found_array(const Found& array, Resource& resource) {
    resource.found.shape = array.shape;
    resource.found.element = {array.shape.format, array.shape.channels};
    resource.device = array.device;
    resource.array = array.memory;
    return CUDA_SUCCESS;
}

CUresult find_resource(const Context& context, const wire::TextureHead& head, Resource& resource) {
    CUDA_RESOURCE_DESC& given = resource.given;
    given.resType = static_cast<CUresourcetype>(head.type);
    const auto format = static_cast<CUarray_format>(head.format);
    switch (given.resType) {
        case CU_RESOURCE_TYPE_ARRAY: {
            Array array;
            if (!context.session().arrays.find(head.source, array)) return CUDA_ERROR_INVALID_HANDLE;
            given.res.array.hArray = array.handle;
            return found_array(array, resource);
        }
        case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: {
            MipmappedArray array;
            if (!context.session().mipmapped_arrays.find(head.source, array))
                return CUDA_ERROR_INVALID_HANDLE;
            given.res.mipmap.hMipmappedArray = array.memory->mipmapped();
            return found_array(array, resource);
        }
        case CU_RESOURCE_TYPE_LINEAR:
            given.res.linear = {head.source, format, head.channels, head.width};
            return find_memory(context, resource);
        case CU_RESOURCE_TYPE_PITCH2D:
            given.res.pitch2D = {head.source, format, head.channels, head.width, head.height, head.pitch};
            return find_memory(context, resource);
        default:
            return kMalformed;
    }
}

CUDA_TEXTURE_DESC sampling_of(const wire::TextureHead& head) {
    CUDA_TEXTURE_DESC sampling{};
    for (int i = 0; i < 3; ++i) sampling.addressMode[i] = static_cast<CUaddress_mode>(head.address_modes[i]);
    std::copy_n(head.border, 4, sampling.borderColor);
    sampling.filterMode = static_cast<CUfilter_mode>(head.filter);
    sampling.flags = head.flags;
    sampling.maxAnisotropy = head.anisotropy;
    sampling.mipmapFilterMode = static_cast<CUfilter_mode>(head.mipmap_filter);
    sampling.mipmapLevelBias = head.mipmap_bias;
    sampling.minMipmapLevelClamp = head.least_level;
    sampling.maxMipmapLevelClamp = head.greatest_level;
    return sampling;
}

CUDA_RESOURCE_VIEW_DESC view_of(const wire::TextureHead& head) {
    CUDA_RESOURCE_VIEW_DESC view{};
    view.format = static_cast<CUresourceViewFormat>(head.view_format);
    view.width = head.view_width;
    view.height = head.view_height;
    view.depth = head.view_depth;
    view.firstMipmapLevel = head.first_level;
    view.lastMipmapLevel = head.last_level;
    view.firstLayer = head.first_layer;
    view.lastLayer = head.last_layer;
    return view;
}

CUresult make_surface(const Driver& driver, const Resource& resource, uint64_t& value) {
    const bool may_be = resource.given.resType == CU_RESOURCE_TYPE_ARRAY &&
                        (resource.found.shape.flags & CUDA_ARRAY3D_SURFACE_LDST);
    if (!may_be) return CUDA_ERROR_INVALID_VALUE;
    CUsurfObject made = 0;
    const CUDA_RESOURCE_DESC* given = &resource.given;
    const CUresult result = invoke(driver.cuSurfObjectCreate, &made, given);
    value = made;
    return result;
}

CUresult make_texture(const Driver& driver, const wire::TextureHead& head, Resource& resource,
                      uint64_t& value) {
    const CUDA_TEXTURE_DESC sampling = sampling_of(head);
    const CUDA_RESOURCE_VIEW_DESC view = view_of(head);
    if (head.has_view) {
        if (!resource.array) return CUDA_ERROR_INVALID_VALUE;
        if (CUresult error = cuda::check_view(view, resource.found)) return error;
    }
    if (CUresult error = cuda::check_sampling(sampling, resource.given.resType, resource.found)) return error;
    CUtexObject made = 0;
    const CUDA_RESOURCE_DESC* given = &resource.given;
    const CUDA_TEXTURE_DESC* its = &sampling;
    const CUDA_RESOURCE_VIEW_DESC* seen = head.has_view ? &view : nullptr;
    const CUresult result = invoke(driver.cuTexObjectCreate, &made, given, its, seen);
    value = made;
    return result;
}

}  // namespace

TextureObject::~TextureObject() {
    if (!value) return;
    const InContext context(worker_, device_);
    if (is_surface_) {
        invoke(worker_.driver.cuSurfObjectDestroy, static_cast<CUsurfObject>(value));
    } else {
        invoke(worker_.driver.cuTexObjectDestroy, static_cast<CUtexObject>(value));
    }
}

CUresult handle_make_texture(Context& context, uint8_t, wire::Reader& payload, wire::Writer& reply) {
    wire::TextureHead head;
    if (!payload.take(head) || !payload.finished() || head.is_surface > 1 || head.has_view > 1)
        return kMalformed;
    Session& session = context.session();
    auto& objects = head.is_surface ? session.surfaces : session.textures;
    if (objects.size() >= wire::kMaxHandles) return CUDA_ERROR_OUT_OF_MEMORY;
    Resource resource;
    if (CUresult error = find_resource(context, head, resource)) return error;
    if (resource.device != context.device()) return CUDA_ERROR_INVALID_VALUE;
    auto object = std::make_shared<TextureObject>(context.worker(), resource.device, head.is_surface != 0);
    object->array = resource.array;
    const CUresult result = head.is_surface ? make_surface(context.driver(), resource, object->value)
                                            : make_texture(context.driver(), head, resource, object->value);
    if (result != CUDA_SUCCESS) return result;
    reply.put(object->value);
    const uint64_t value = object->value;
    return objects.add(value, std::move(object)) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

// What runs may use it.
CUresult handle_end_texture(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    wire::TextureEnd message;
    if (!payload.take(message) || !payload.finished() || message.is_surface > 1) return kMalformed;
    Session& session = context.session();
    auto& objects = message.is_surface ? session.surfaces : session.textures;
    std::shared_ptr<TextureObject> object;
    if (!objects.find(message.value, object)) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = session.own_work.wait(object->device());
    return objects.take(message.value, object) ? result : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace worker
