// The handles that a library has given to the program. One that was destroyed, or never given, is found out:
// a pointer is looked up and not followed.
#pragma once

#include <memory>
#include <new>

#include "cuda/handle_table.h"

namespace libraries {

template <typename Handle>
class Handles {
  public:
    // Null without memory.
    void* add() {
        try {
            auto handle = std::make_shared<Handle>();
            void* const name = handle.get();
            live_.add(name, std::move(handle));
            return name;
        } catch (const std::bad_alloc&) {
            return nullptr;
        }
    }
    // Null for what is no handle. It lives as long as a call has it.
    std::shared_ptr<Handle> find(const void* name) const {
        std::shared_ptr<Handle> handle;
        live_.find(name, handle);
        return handle;
    }
    bool remove(const void* name) {
        std::shared_ptr<Handle> last;
        return live_.take(name, last);
    }

  private:
    cuda::HandleTable<const void*, std::shared_ptr<Handle>> live_;
};

}  // namespace libraries
