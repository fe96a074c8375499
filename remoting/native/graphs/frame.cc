#include "frame.h"

#include <functional>
#include <utility>

#include "user_object.h"

namespace graphs {
namespace {

std::mutex& mutex() {
    static auto* one = new std::mutex;
    return *one;
}
std::vector<std::shared_ptr<void>>* discarded = nullptr;  // of the frame that holds the lock

}  // namespace

Frame::Frame() : lock_(mutex()) {
    discarded = &discarded_;
}

Frame::~Frame() {
    discarded = nullptr;
    lock_.unlock();
    if (discarded_.empty() || UserObject::collects()) return;
    std::vector<std::function<void()>> told;
    {
        const UserObject::Later later(told);
        discarded_.clear();
    }
    if (!told.empty()) platform::tell(told);
}

void Frame::discard(std::shared_ptr<void> last) {
    discarded->push_back(std::move(last));
}

}  // namespace graphs
