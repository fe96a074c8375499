// Texture and surface objects of a session: the driver's, by the values that it has given, which kernels use.
#pragma once

#include <memory>

#include "arrays.h"

namespace worker {

// Destroyed with the session's last use of it.
class TextureObject {
  public:
    TextureObject(Worker& worker, uint8_t device, bool is_surface)
        : worker_(worker), device_(device), is_surface_(is_surface) {}
    ~TextureObject();
    TextureObject(const TextureObject&) = delete;
    TextureObject& operator=(const TextureObject&) = delete;

    uint8_t device() const { return device_; }

    uint64_t value = 0;                             // 0: the driver has not made it
    std::shared_ptr<const ArrayMemory> array = {};  // that it names

  private:
    Worker& worker_;
    const uint8_t device_;
    const bool is_surface_;
};

}  // namespace worker
