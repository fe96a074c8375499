// Arrays of a session: the driver's, under the handles that the client has minted, and charged to the slice.
#pragma once

#include <memory>
#include <vector>

#include "array_shape.h"
#include "cuda_abi.h"

namespace worker {

struct Worker;

// What the driver has made, destroyed with the last who uses it: the session, a graph, a texture object.
class ArrayMemory {
  public:
    ArrayMemory(Worker& worker, uint8_t device, uint64_t charged)
        : worker_(worker), device_(device), charged_(charged) {}
    ~ArrayMemory();
    ArrayMemory(const ArrayMemory&) = delete;
    ArrayMemory& operator=(const ArrayMemory&) = delete;

    // One of the two, in the context of the device.
    CUresult make(const cuda::ArrayShape& shape);
    CUresult level(unsigned number, CUarray& level) const;
    CUarray array() const { return array_; }
    CUmipmappedArray mipmapped() const { return mipmapped_; }

  private:
    Worker& worker_;
    const uint8_t device_;
    const uint64_t charged_;
    CUarray array_ = nullptr;
    CUmipmappedArray mipmapped_ = nullptr;
};

// An array, or a level.
struct Array {
    CUarray handle = nullptr;
    cuda::ArrayShape shape{};
    uint8_t device = 0;
    bool is_level = false;
    std::shared_ptr<const ArrayMemory> memory{};
};

struct MipmappedArray {
    cuda::ArrayShape shape{};
    uint8_t device = 0;
    std::vector<uint64_t> levels{};  // their handles
    std::shared_ptr<const ArrayMemory> memory{};
};

}  // namespace worker
