// Texture and surface objects: what the program gave, and what kernels find under the same number.
#pragma once

#include "context.h"
#include "front/platform.h"

namespace softgpu::driver {

// The context's kernels find it as long as it lives.
class TextureObject : public Object {
  public:
    static constexpr Kind kKind = Kind::texture;
    TextureObject(std::shared_ptr<Context> context, const front::Texture& given)
        : Object(kKind), context(std::move(context)), given(given) {}
    const std::shared_ptr<Context> context;
    const front::Texture given;
};

class SurfaceObject : public Object {
  public:
    static constexpr Kind kKind = Kind::surface;
    SurfaceObject(std::shared_ptr<Context> context, const CUDA_RESOURCE_DESC& given)
        : Object(kKind), context(std::move(context)), given(given) {}
    const std::shared_ptr<Context> context;
    const CUDA_RESOURCE_DESC given;
};

}  // namespace softgpu::driver
