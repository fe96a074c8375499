// Frees that a program has queued in a stream which has not come to them. Until it has, the memory is there,
// and its bytes are the slice's; other streams could not use them.
//
// A stream is marked by an event that is recorded behind its frees: not at each of them, but when somebody
// looks, so a free costs next to nothing. Frees that come while a mark is under way wait for the next one, so
// each look comes nearer to the end, however many follow. Only a stream that nobody else can name, and one
// that is about to end, is marked at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>
#include <vector>

#include "cuda_abi.h"
#include "memory_ledger.h"
#include "protocol.h"

namespace worker {

struct Worker;

class EndingFrees {
  public:
    explicit EndingFrees(Worker& worker) : worker_(worker) {}
    EndingFrees(const EndingFrees&) = delete;
    EndingFrees& operator=(const EndingFrees&) = delete;

    // A free was queued in `stream` of the calling thread's context, which is that of device `in`.
    void add(uint8_t in, CUstream stream, const Allocation& allocation);
    // The stream is about to be destroyed, or the calling thread, and with it the stream that only it can
    // name.
    void stream_ends(CUstream stream);
    void thread_ends();

    // Gives back what streams have come to. Does not wait.
    void look();
    // Whether so many streams have ended before their frees that nothing more may be begun until some have
    // come to theirs. What ends after that was there already, so their number is bounded.
    bool too_many();
    // What comes back when streams move.
    uint64_t bytes(uint8_t of);

  private:
    struct Bytes {
        uint64_t charged = 0;   // given back when the stream has come here
        uint64_t of_pools = 0;  // which know themselves what they hold
    };
    using ByDevice = std::map<uint8_t, Bytes>;
    struct Stream {
        CUevent mark = nullptr;  // under way
        ByDevice marked{};       // before the mark
        ByDevice after{};
        bool more = false;  // there are frees after the mark
    };
    using Key =
        std::tuple<uint8_t, CUstream, std::thread::id>;  // the thread of streams that only it can name
    void record(const Key& key, Stream& stream);
    bool come_to(Stream& stream);
    void end(const Key& key);

    Worker& worker_;
    std::mutex mutex_;
    std::map<Key, Stream> streams_;
    static constexpr size_t kMostEnded = 4096;
    std::vector<Stream> ended_;      // streams, but not their work
    std::atomic<bool> full_{false};  // of ended_
    std::vector<CUevent> spare_;
};

}  // namespace worker
