// The memory in which one host thread runs one block: warps, their registers, shared and local memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/launch.h"
#include "exec/schedule.h"
#include "exec/sums.h"
#include "exec/texture/objects.h"

namespace softgpu {

class Arena {
  public:
    Arena() = default;
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;

    // Makes room and fills what does not change during the launch. False when the host has no memory.
    bool prepare(LaunchState* launch, uint32_t multiprocessor);
    void start_block(uint64_t number);
    Progress run();
    Block* block() { return &block_; }
    // Gives up what belongs to the launch; the memory stays for the next one.
    void finish();

  private:
    struct Range {
        std::byte* base = nullptr;
        size_t bytes = 0;
        bool grow(size_t wanted);  // page-aligned, zero when new
        void release();
    };
    Sums sums_{};
    texture::Cache textures_;
    Block block_{};
    const Op* start_ = nullptr;  // of a block that has not had a turn
    Range warps_, slots_, shared_, local_;
};

}  // namespace softgpu
