#include "ending_frees.h"

#include <utility>

#include "in_context.h"

namespace worker {
namespace {

bool of_thread(CUstream stream) {
    return stream == CU_STREAM_PER_THREAD;
}

}  // namespace

// With mutex_ held, in the stream's context. Where nothing can be recorded the bytes stay taken: the driver
// has no room, or the context is lost.
void EndingFrees::record(const Key& key, Stream& stream) {
    const Driver& driver = worker_.driver;
    CUevent event = nullptr;
    if (!spare_.empty()) {
        event = spare_.back();
        spare_.pop_back();
    } else if (invoke(driver.cuEventCreate, &event, unsigned{CU_EVENT_DISABLE_TIMING}) != CUDA_SUCCESS) {
        return;
    }
    if (invoke(driver.cuEventRecord, event, std::get<CUstream>(key)) != CUDA_SUCCESS) {
        spare_.push_back(event);
        return;
    }
    stream.mark = event;
    stream.marked = std::exchange(stream.after, {});
    stream.more = false;
}

// With mutex_ held. Whether the mark's frees have been executed.
bool EndingFrees::come_to(Stream& stream) {
    const Driver& driver = worker_.driver;
    const NewsKept kept(driver);
    if (!stream.mark || invoke(driver.cuEventQuery, stream.mark) != CUDA_SUCCESS) return false;
    // Returns at once; a driver takes it for the moment to give freed memory back.
    invoke(driver.cuEventSynchronize, stream.mark);
    for (const auto& [device, bytes] : stream.marked) worker_.memory.give_back(device, bytes.charged);
    stream.marked.clear();
    spare_.push_back(std::exchange(stream.mark, nullptr));
    return true;
}

void EndingFrees::add(uint8_t in, CUstream stream, const Allocation& allocation) {
    if (!stream) stream = CU_STREAM_LEGACY;
    const auto thread = of_thread(stream) ? std::this_thread::get_id() : std::thread::id{};
    const Key key{in, stream, thread};
    const std::lock_guard lock(mutex_);
    Stream& one = streams_[key];
    Bytes& bytes = one.after[allocation.device];
    (allocation.pool ? bytes.of_pools : bytes.charged) += allocation.charged;
    one.more = true;
    if (!of_thread(stream)) return;
    come_to(one);
    if (!one.mark) record(key, one);
}

// With mutex_ held, in the stream's context.
void EndingFrees::end(const Key& key) {
    const auto found = streams_.find(key);
    if (found == streams_.end()) return;
    Stream stream = std::move(found->second);
    streams_.erase(found);
    if (stream.more) {
        // One mark behind all of it.
        if (stream.mark) spare_.push_back(std::exchange(stream.mark, nullptr));
        for (const auto& [device, bytes] : std::exchange(stream.marked, {})) {
            stream.after[device].charged += bytes.charged;
            stream.after[device].of_pools += bytes.of_pools;
        }
        record(key, stream);
    }
    if (stream.mark) ended_.push_back(std::move(stream));
    full_ = ended_.size() >= kMostEnded;
}

bool EndingFrees::too_many() {
    if (!full_.load(std::memory_order_relaxed)) return false;
    const std::lock_guard lock(mutex_);
    std::erase_if(ended_, [this](Stream& stream) { return come_to(stream); });
    full_ = ended_.size() >= kMostEnded;
    return full_;
}

void EndingFrees::stream_ends(CUstream stream) {
    const std::lock_guard lock(mutex_);
    for (uint8_t device = 0; device < worker_.devices.size(); ++device) end({device, stream, {}});
}

void EndingFrees::thread_ends() {
    const std::lock_guard lock(mutex_);
    for (uint8_t device = 0; device < worker_.devices.size(); ++device) {
        const Key key{device, CU_STREAM_PER_THREAD, std::this_thread::get_id()};
        if (!streams_.contains(key)) continue;
        const InContext context(worker_, device);
        end(key);
    }
}

void EndingFrees::look() {
    const std::lock_guard lock(mutex_);
    std::erase_if(ended_, [this](Stream& stream) { return come_to(stream); });
    full_ = ended_.size() >= kMostEnded;
    for (auto entry = streams_.begin(); entry != streams_.end();) {
        const auto& [key, stream] = *entry;
        const bool nameable = !of_thread(std::get<CUstream>(key)) ||
                              std::get<std::thread::id>(key) == std::this_thread::get_id();
        const InContext context(worker_, std::get<uint8_t>(key));
        come_to(entry->second);
        if (nameable && !stream.mark && stream.more) {
            record(key, entry->second);
            come_to(entry->second);
        }
        entry = stream.mark || stream.more ? std::next(entry) : streams_.erase(entry);
    }
}

uint64_t EndingFrees::bytes(uint8_t of) {
    uint64_t all = 0;
    const auto add = [&](const Stream& stream) {
        for (const ByDevice* some : {&stream.marked, &stream.after}) {
            const auto found = some->find(of);
            if (found != some->end()) all += found->second.charged + found->second.of_pools;
        }
    };
    const std::lock_guard lock(mutex_);
    for (const auto& [key, stream] : streams_) add(stream);
    for (const Stream& stream : ended_) add(stream);
    return all;
}

}  // namespace worker
