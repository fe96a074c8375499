// What a session knows of its streams: whether a wait in a stream has anything to wait for
// (docs/design/shared-memory.md, "Order without a round trip").
//
// Posted calls are numbered. When a wait in stream S, which began after n were posted, has succeeded, all
// that these n have put before S is done. Work gets into streams by posted calls alone, and a call takes its
// number before it returns: so as long as no more than n are posted, whatever an operation of S would come
// after, and that anybody knows of, is done. Nothing is concluded about other streams, but from a wait for a
// whole device.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace client {

// A stream of this process. The default streams have one handle for all devices, and that of the thread one
// for all threads.
struct StreamName {
    uint64_t handle = 0;
    uint64_t thread = 0;  // of the thread's default stream its number, else 0
    uint8_t device = 0;
    auto operator<=>(const StreamName&) const = default;
};

class StreamKnowledge {
  public:
    static constexpr size_t kMostStreams = 1024;

    // `posted`: how many calls are posted now.
    bool nothing_to_wait_for(const StreamName& stream, uint64_t posted) const {
        const std::lock_guard lock(mutex_);
        if (known(devices_[stream.device], posted)) return true;
        const auto found = streams_.find(stream);
        return found != streams_.end() && known(found->second, posted);
    }

    // A wait in the stream has succeeded that began when so many were posted.
    void waited(const StreamName& stream, uint64_t posted) {
        const std::lock_guard lock(mutex_);
        // What is forgotten is waited for once more.
        if (streams_.size() >= kMostStreams && !streams_.contains(stream)) streams_.clear();
        learn(streams_[stream], posted);
    }

    // So has one for all work of the device.
    void waited_for_device(uint8_t device, uint64_t posted) {
        const std::lock_guard lock(mutex_);
        learn(devices_[device], posted);
    }

    // The numbers begin anew.
    void forget() {
        const std::lock_guard lock(mutex_);
        streams_.clear();
        devices_.fill(0);
    }

  private:
    // One more than the number, so that 0 is nothing.
    static bool known(uint64_t upto, uint64_t posted) { return upto > posted; }
    static void learn(uint64_t& upto, uint64_t posted) { upto = std::max(upto, posted + 1); }

    mutable std::mutex mutex_;
    std::map<StreamName, uint64_t> streams_;
    std::array<uint64_t, 256> devices_{};
};

}  // namespace client
