#include "texture.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "call.h"
#include "context.h"
#include "front/platform.h"

namespace client {
namespace {

// By value. Kernels are given it, so the worker's driver gives it, and no handle is minted.
template <typename Given>
class Objects {
  public:
    void add(uint64_t value, const Given& given) {
        const std::lock_guard lock(mutex_);
        objects_[value] = {current_context_id(), given};
    }
    Given find(uint64_t value) {
        const std::lock_guard lock(mutex_);
        const auto found = objects_.find(value);
        front::require(found != objects_.end());
        return found->second.given;
    }
    void remove(uint64_t value) {
        const std::lock_guard lock(mutex_);
        front::require(objects_.erase(value) == 1);
    }
    void take_of(uint64_t context, bool is_surface, std::vector<wire::TextureEnd>& taken) {
        const std::lock_guard lock(mutex_);
        std::erase_if(objects_, [&](const auto& object) {
            const bool its = object.second.context == context;
            if (its) taken.push_back({object.first, is_surface, 0});
            return its;
        });
    }
    void forget() {
        const std::lock_guard lock(mutex_);
        objects_.clear();
    }

  private:
    struct Object {
        uint64_t context;
        Given given;
    };
    std::mutex mutex_;
    std::map<uint64_t, Object> objects_;
};

// Never destroyed: programs call from exit handlers.
Objects<front::Texture>& textures() {
    static auto* objects = new Objects<front::Texture>;
    return *objects;
}
Objects<CUDA_RESOURCE_DESC>& surfaces() {
    static auto* objects = new Objects<CUDA_RESOURCE_DESC>;
    return *objects;
}

void put(wire::TextureHead& head, const CUDA_RESOURCE_DESC& given) {
    head.type = given.resType;
    switch (given.resType) {
        case CU_RESOURCE_TYPE_LINEAR: {
            const auto& linear = given.res.linear;
            head.source = linear.devPtr;
            head.format = linear.format;
            head.channels = linear.numChannels;
            head.width = linear.sizeInBytes;
            return;
        }
        case CU_RESOURCE_TYPE_PITCH2D: {
            const auto& flat = given.res.pitch2D;
            head.source = flat.devPtr;
            head.format = flat.format;
            head.channels = flat.numChannels;
            head.width = flat.width;
            head.height = flat.height;
            head.pitch = flat.pitchInBytes;
            return;
        }
        default:  // arrays are handles, both kinds in one place
            head.source = reinterpret_cast<uint64_t>(given.res.array.hArray);
    }
}

void put(wire::TextureHead& head, const CUDA_TEXTURE_DESC& given) {
    std::copy_n(given.addressMode, 3, head.address_modes);
    std::copy_n(given.borderColor, 4, head.border);
    head.filter = given.filterMode;
    head.flags = given.flags;
    head.anisotropy = given.maxAnisotropy;
    head.mipmap_filter = given.mipmapFilterMode;
    head.mipmap_bias = given.mipmapLevelBias;
    head.least_level = given.minMipmapLevelClamp;
    head.greatest_level = given.maxMipmapLevelClamp;
}

void put(wire::TextureHead& head, const CUDA_RESOURCE_VIEW_DESC& given) {
    head.has_view = 1;
    head.view_format = given.format;
    head.view_width = given.width;
    head.view_height = given.height;
    head.view_depth = given.depth;
    head.first_level = given.firstMipmapLevel;
    head.last_level = given.lastMipmapLevel;
    head.first_layer = given.firstLayer;
    head.last_layer = given.lastLayer;
}

uint64_t ask_for(const wire::TextureHead& head) {
    Call call;
    front::check(call.begin());
    uint64_t value = 0;
    front::check(call.ask(wire::kOpMakeTexture, 0, &head, sizeof head, &value, sizeof value));
    return value;
}

void give_up(uint64_t value, bool is_surface) {
    Call call;
    front::check(call.begin_without_context());
    const wire::TextureEnd message{value, is_surface, 0};
    front::check(call.post(wire::kOpEndTexture, 0, &message, sizeof message));
}

}  // namespace

std::vector<wire::TextureEnd> take_textures(uint64_t context) {
    std::vector<wire::TextureEnd> taken;
    textures().take_of(context, false, taken);
    surfaces().take_of(context, true, taken);
    return taken;
}

void forget_textures() {
    textures().forget();
    surfaces().forget();
}

}  // namespace client

namespace front::platform {

using namespace client;

CUtexObject make_texture(const Texture& texture) {
    wire::TextureHead head{};
    put(head, texture.resource);
    put(head, texture.sampling);
    if (texture.view) put(head, *texture.view);
    const uint64_t value = ask_for(head);
    textures().add(value, texture);
    return value;
}

Texture texture(CUtexObject object) {
    return textures().find(object);
}

void end_texture(CUtexObject object) {
    textures().remove(object);
    give_up(object, false);
}

CUsurfObject make_surface(const CUDA_RESOURCE_DESC& resource) {
    wire::TextureHead head{};
    head.is_surface = 1;
    put(head, resource);
    const uint64_t value = ask_for(head);
    surfaces().add(value, resource);
    return value;
}

CUDA_RESOURCE_DESC surface(CUsurfObject object) {
    return surfaces().find(object);
}

void end_surface(CUsurfObject object) {
    surfaces().remove(object);
    give_up(object, true);
}

}  // namespace front::platform
