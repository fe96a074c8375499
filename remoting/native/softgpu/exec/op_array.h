// The ops of an image, one after the other. Where they are many, they grow where they are, so that for a
// moment there are not twice as many: what a load takes is bounded (worker/text_cost.h).
#pragma once

#include <cstdlib>
#include <new>

#include "exec/op.h"

namespace softgpu {

class OpArray {
  public:
    OpArray() = default;
    OpArray(const OpArray&) = delete;
    OpArray& operator=(const OpArray&) = delete;
    ~OpArray() { std::free(first_); }

    void push_back(const Op& op) {
        if (size_ == room_) resize(size_ + size_ / 2 + 64);
        first_[size_++] = op;
    }
    void shrink_to_fit() {
        if (size_ < room_ && size_ > 0) resize(size_);
    }

    size_t size() const { return size_; }
    Op* data() { return first_; }
    const Op* data() const { return first_; }
    Op& operator[](size_t at) { return first_[at]; }
    const Op& operator[](size_t at) const { return first_[at]; }
    Op& back() { return first_[size_ - 1]; }
    Op* begin() { return first_; }
    Op* end() { return first_ + size_; }

  private:
    void resize(size_t room) {
        // Of large ones the pages are mapped elsewhere, and not copied.
        void* const moved = std::realloc(static_cast<void*>(first_), room * sizeof(Op));
        if (moved == nullptr) throw std::bad_alloc();
        first_ = static_cast<Op*>(moved);
        room_ = room;
    }

    Op* first_ = nullptr;
    size_t size_ = 0, room_ = 0;
};

}  // namespace softgpu
