// What a client concludes about its streams, against a model of CUDA's order.
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "../../../remoting/native/client/stream_knowledge.h"
#include "cases.h"

namespace {

using client::StreamKnowledge;
using client::StreamName;

// Streams of two devices: the default stream, two that order themselves with it, and one that does not.
constexpr size_t kStreams = 8;
StreamName name_of(size_t stream) {
    return {stream % 4, 0, static_cast<uint8_t>(stream / 4)};
}
bool is_default(size_t stream) {
    return stream % 4 == 0;
}
bool is_blocking(size_t stream) {
    return stream % 4 != 3;
}

// Operations in the order in which they were posted; each runs when those before it are done.
class Device {
  public:
    // What an operation of the stream comes after.
    std::set<size_t> before(size_t stream) const {
        std::set<size_t> found;
        for (size_t other = 0; other < kStreams; ++other) {
            const bool ordered = other / 4 == stream / 4 && is_blocking(other) && is_blocking(stream) &&
                                 (is_default(other) || is_default(stream));
            if ((other == stream || ordered) && last_[other]) found.insert(*last_[other]);
        }
        return found;
    }
    size_t post(size_t stream, std::optional<size_t> after = {}) {
        std::set<size_t> all = before(stream);
        if (after) all.insert(*after);
        operations_.push_back({all, false});
        last_[stream] = operations_.size() - 1;
        return operations_.size() - 1;
    }
    void complete(size_t operation) {
        if (operations_[operation].done) return;
        for (const size_t earlier : std::set<size_t>(operations_[operation].after)) complete(earlier);
        operations_[operation].done = true;
    }
    bool done(const std::set<size_t>& these) const {
        for (const size_t each : these)
            if (!operations_[each].done) return false;
        return true;
    }
    // All streams of one device, as cuCtxSynchronize waits for them.
    std::set<size_t> of_device(size_t device) const {
        std::set<size_t> found;
        for (size_t stream = device * 4; stream < device * 4 + 4; ++stream)
            if (last_[stream]) found.insert(*last_[stream]);
        return found;
    }
    size_t posted() const { return operations_.size(); }

  private:
    struct Operation {
        std::set<size_t> after;
        bool done;
    };
    std::vector<Operation> operations_;
    std::optional<size_t> last_[kStreams];
};

}  // namespace

CASE(nothing_to_wait_for_is_only_said_when_all_before_the_stream_is_done) {
    size_t spared = 0;
    for (unsigned seed = 0; seed < 400; ++seed) {
        std::mt19937 random(seed);
        const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
        StreamKnowledge known;
        Device device;
        for (int step = 0; step < 200; ++step) {
            const size_t stream = below(kStreams);
            switch (below(6)) {
                case 0:
                    device.post(stream);
                    break;
                case 1:  // a wait for an event, recorded by any operation
                    device.post(stream,
                                device.posted() ? std::optional(below(device.posted())) : std::nullopt);
                    break;
                case 2:
                    if (device.posted()) device.complete(below(device.posted()));
                    break;
                case 3: {  // of the whole device, while other threads go on posting
                    const uint64_t posted = device.posted();
                    const auto awaited = device.of_device(stream / 4);
                    if (below(2)) device.post(below(kStreams));
                    for (const size_t each : awaited) device.complete(each);
                    known.waited_for_device(static_cast<uint8_t>(stream / 4), posted);
                    break;
                }
                default: {  // an operator
                    const uint64_t posted = device.posted();
                    const auto awaited = device.before(stream);
                    if (known.nothing_to_wait_for(name_of(stream), posted)) {
                        ++spared;
                        EXPECT(device.done(awaited));
                        break;
                    }
                    if (below(2)) device.post(below(kStreams));
                    for (const size_t each : awaited) device.complete(each);
                    known.waited(name_of(stream), posted);
                }
            }
        }
    }
    EXPECT(spared > 1000);
}

CASE(a_stream_that_was_waited_for_is_not_waited_for_again_until_something_is_posted) {
    StreamKnowledge known;
    const StreamName stream{7, 0, 0};
    EXPECT(!known.nothing_to_wait_for(stream, 0));
    known.waited(stream, 0);
    EXPECT(known.nothing_to_wait_for(stream, 0));
    EXPECT(!known.nothing_to_wait_for(stream, 1));
    known.waited(stream, 5);
    EXPECT(known.nothing_to_wait_for(stream, 5) && !known.nothing_to_wait_for(stream, 6));
    known.waited(stream, 3);  // by another thread, which began before
    EXPECT(known.nothing_to_wait_for(stream, 5));
}

CASE(what_is_known_of_a_stream_is_not_said_of_another) {
    StreamKnowledge known;
    known.waited({0, 0, 0}, 4);
    EXPECT(!known.nothing_to_wait_for({0, 0, 1}, 4));  // the default stream of another device
    EXPECT(!known.nothing_to_wait_for({9, 0, 0}, 4));
    known.waited({2, 1, 0}, 4);
    EXPECT(!known.nothing_to_wait_for({2, 2, 0}, 4));  // that of another thread
    known.waited_for_device(1, 4);
    EXPECT(known.nothing_to_wait_for({0, 0, 1}, 4) && known.nothing_to_wait_for({9, 0, 1}, 4));
    known.forget();
    EXPECT(!known.nothing_to_wait_for({0, 0, 0}, 4) && !known.nothing_to_wait_for({0, 0, 1}, 4));
}

CASE(knowledge_of_streams_has_a_bound) {
    StreamKnowledge known;
    for (uint64_t stream = 0; stream < 3 * StreamKnowledge::kMostStreams; ++stream) {
        known.waited({stream, 0, 0}, 1);
        EXPECT(known.nothing_to_wait_for({stream, 0, 0}, 1));
    }
    EXPECT(!known.nothing_to_wait_for({0, 0, 0}, 1));  // forgotten: waited for once more
}
