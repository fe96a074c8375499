#include "life.h"

#include <memory>
#include <utility>

#include "capture.h"
#include "memory.h"
#include "objects.h"
#include "user_object.h"

namespace graphs {

std::vector<std::function<void()>> forget_life() {
    std::vector<std::function<void()>> told;
    UserObject::Later later(told);
    forget_captures();
    // An object may take others off the table as it goes.
    for (const std::shared_ptr<Object>& object : table().take_all()) object->handle = 0;
    forget_allocations();
    return told;
}

}  // namespace graphs
