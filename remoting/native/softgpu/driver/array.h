// CUDA arrays as linear memory of the device: rows without gaps, planes one after another, and the levels of
// a mipmapped array behind each other. docs/design/textures.md.
#pragma once

#include <memory>
#include <vector>

#include "array_shape.h"
#include "context.h"
#include "engine.h"

namespace softgpu::driver {

// Memory of the device's that no program has an address of: given back with the last who holds it.
class ArrayMemory {
  public:
    ArrayMemory(Context& context, uint64_t bytes);  // throws OUT_OF_MEMORY
    ~ArrayMemory();
    ArrayMemory(const ArrayMemory&) = delete;
    ArrayMemory& operator=(const ArrayMemory&) = delete;

    const uint64_t base;

  private:
    DeviceMemory& space_;
};

// An array, or a level of a mipmapped one. Who holds it, holds its memory: kernels, copies and graphs too.
class Array : public Object {
  public:
    static constexpr Kind kKind = Kind::array;
    Array(std::shared_ptr<Context> context, const cuda::ArrayShape& shape,
          std::shared_ptr<const ArrayMemory> memory, uint64_t base, bool is_level)
        : Object(kKind),
          context(std::move(context)),
          shape(shape),
          base(base),
          is_level(is_level),
          memory_(std::move(memory)) {}

    const std::shared_ptr<Context> context;
    const cuda::ArrayShape shape;
    const uint64_t
        base;  // of element (0, 0, 0); rows are shape.row_bytes() apart, planes shape.plane_bytes()
    const bool is_level;

  private:
    const std::shared_ptr<const ArrayMemory> memory_;
};

class MipmappedArray : public Object {
  public:
    static constexpr Kind kKind = Kind::mipmapped_array;
    MipmappedArray(std::shared_ptr<Context> context, const cuda::ArrayShape& shape,
                   std::vector<std::shared_ptr<Array>> levels)
        : Object(kKind), context(std::move(context)), shape(shape), levels(std::move(levels)) {}

    const std::shared_ptr<Context> context;
    const cuda::ArrayShape shape;
    const std::vector<std::shared_ptr<Array>> levels;  // one at least
};

// Without handles. Throw OUT_OF_MEMORY.
std::shared_ptr<Array> make_array(const std::shared_ptr<Context>& context, const cuda::ArrayShape& shape);
std::shared_ptr<MipmappedArray> make_mipmapped_array(const std::shared_ptr<Context>& context,
                                                     const cuda::ArrayShape& shape);

}  // namespace softgpu::driver
