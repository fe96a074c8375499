// How the lanes of an instruction find the objects that their registers name: one after the other, and once
// for lanes in a row that name the same.
#pragma once

#include <string>

#include "exec/lanes/lanes.h"
#include "exec/launch.h"
#include "exec/texture/objects.h"
#include "exec/texture/request.h"

namespace softgpu::SOFTGPU_ISA {
namespace {

class Finder {
  public:
    // `verb` and `geometry`: the instruction's name. `surface`: what it wants.
    Finder(const Op* op, Warp* warp, const char* verb, const char* geometry, bool surface)
        : op_(op),
          warp_(warp),
          verb_(verb),
          geometry_(geometry),
          surface_(surface),
          handles_(slot<u64>(warp, op->a)) {}

    // The object that a lane names; null after a fault. `accepts(object)` says what speaks against it, or
    // null.
    template <class Accepts>
    const texture::Object* of(u32 lane, Accepts&& accepts) {
        const u64 handle = handles_[lane];
        if (SOFTGPU_LIKELY(last_ != nullptr && handle == last_handle_)) return last_;
        const texture::Object* const found = look_up(lane, handle);
        if (found == nullptr) return nullptr;
        if (const char* why = accepts(*found)) {
            refuse(Status::illegal_instruction, lane, "cannot use " + kind() + hex(handle) + ": " + why);
            return nullptr;
        }
        last_handle_ = handle;
        return last_ = found;
    }

    void refuse(Status status, u32 lane, const std::string& what) const {
        fault(op_, warp_, status, lane, std::string(verb_) + geometry_ + " " + what);
    }

  private:
    std::string kind() const { return surface_ ? "surface object " : "texture object "; }

    const texture::Object* look_up(u32 lane, u64 handle) const {
        const LaunchState& launch = *warp_->block->launch;
        const auto found = warp_->block->textures->find(launch.launch->objects, *launch.memory, handle);
        if (found.state == texture::Cache::State::freed) {
            refuse(Status::illegal_address, lane,
                   "uses " + kind() + hex(handle) + ", whose memory at " +
                       hex(found.object->texture.elements.levels[0].base) + " has been freed");
            return nullptr;
        }
        if (found.state == texture::Cache::State::unknown || found.object->surface != surface_) {
            refuse(Status::illegal_address, lane,
                   "uses " + hex(handle) + ", which is no " + kind() +
                       "of this context: it was never made, or has been destroyed");
            return nullptr;
        }
        return found.object;
    }

    static std::string hex(u64 value) {
        constexpr char kDigits[] = "0123456789abcdef";
        std::string text;
        do text.insert(text.begin(), kDigits[value & 15]);
        while ((value >>= 4) != 0);
        return "0x" + text;
    }

    const Op* op_;
    Warp* warp_;
    const char *verb_, *geometry_;
    bool surface_;
    const u64* handles_;
    const texture::Object* last_ = nullptr;
    u64 last_handle_ = 0;
};

// Calls f(lane) for each lane until it says no.
template <class F>
SOFTGPU_INLINE bool each_lane(Warp* warp, F f) {
    for (u32 left = warp->mask; left != 0; left &= left - 1) {
        if (!f(u32(__builtin_ctz(left)))) return false;
    }
    return true;
}

}  // namespace
}  // namespace softgpu::SOFTGPU_ISA
