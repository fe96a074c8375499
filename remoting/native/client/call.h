// What every exported function that needs the worker does first and last. The generated functions
// (client_calls.cc) and the hand-written ones share it.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "box.h"
#include "cuda_abi.h"
#include "protocol.h"

namespace client {

class Lane;

class Call {
  public:
    Call() = default;
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    // The session's error, or the thread's lack of a current context or lane. NOT_PERMITTED inside a function
    // that the program has given to a stream.
    CUresult begin();
    // The same for calls that work without a current context (libraries); uses device 0.
    CUresult begin_without_context();
    // The same for those that make something and need no handle: another life begins where one was ended.
    CUresult begin_anew();

    // For work on a stream: only a default stream needs a current context. The stream is checked.
    CUresult begin_for(CUstream handle);
    // For a device, whatever is current.
    CUresult begin_on(uint8_t device);
    // For a call on another device than the current context's.
    void use_device(uint8_t device) { device_ = device; }

    // Handles of the program to values on the wire; false for one that is not valid.
    bool stream(CUstream handle, bool per_thread, uint64_t& wire) const;
    bool event(CUevent handle, uint64_t& wire) const;
    bool pool(CUmemoryPool handle, uint64_t& wire) const;

    // Whether a call may use `bytes` of device memory at `address`. Pinned memory is given its twin there,
    // and `address` becomes the twin's.
    CUresult reach(uint64_t& address, uint64_t bytes);

    // Before a call that reads or writes device memory: managed and mapped memory goes to the device. The
    // call is not made where that fails.
    CUresult uses_memory();

    CUresult post(uint16_t opcode, uint8_t flags, const void* message, size_t bytes);
    // A payload in parts (at most 6).
    CUresult post_parts(uint16_t opcode, uint8_t flags, const iovec* parts, int count);

    // Sends, waits, and copies what comes back, which must be exactly `out_bytes` long, to `out`.
    CUresult ask(uint16_t opcode, uint8_t flags, const void* message, size_t bytes, void* out,
                 size_t out_bytes);
    // Any reply: `payload` lasts until the thread's next call.
    CUresult ask_parts(uint16_t opcode, uint8_t flags, const iovec* parts, int count,
                       std::span<const std::byte>& payload);
    // As ask, for calls after which the program may look at results: makes them visible.
    CUresult synchronize(uint16_t opcode, uint8_t flags, const void* message, size_t bytes, void* out,
                         size_t out_bytes);

    // That which begins now has run; as synchronize.
    CUresult wait_for_stream(uint64_t stream);

    // kOpCopyOut: `bytes` from the device at `address` to `to`.
    CUresult copy_out(void* to, uint64_t address, uint64_t bytes, uint64_t stream);
    // kOpCopyIn, in chunks. `whole`: later work on any stream sees the data, as after cuMemcpyHtoD.
    CUresult copy_in(uint64_t address, const void* from, uint64_t bytes, uint64_t stream, bool whole);

    // kOpCopyBoxOut and kOpCopyBoxIn; boxes of one shape, one of them in this process. Flat ones go as above.
    CUresult copy_box_out(const wire::Box& to, const wire::Box& from, uint64_t stream);
    CUresult copy_box_in(const wire::Box& to, const wire::Box& from, uint64_t stream, bool whole);

    // kOpNextCopyBack: says that copy `done` is there, unless it is 0, and waits for the next
    // (copies_back.h). False when the session is lost.
    bool next_copy_back(uint64_t done, wire::CopyBackReply& next);
    // The replies that bring a box, one a piece.
    CUresult receive_box(const wire::Box& to);

    // kOpMemoryLook, in chunks, several of which are under way: device memory as it is now, and bytes for it.
    // In no order with other calls but those that the thread has posted before.
    CUresult look(uint64_t address, std::byte* to, uint64_t bytes);
    CUresult give(uint64_t address, const std::byte* from, uint64_t bytes);
    // Whether the worker has done what the thread has posted: a look has nothing to wait for then.
    bool nothing_before() const;

    // After a call that waited for the device: managed and mapped memory comes back to the host. For a part
    // of its work: it is shown there (shared_memory.h).
    CUresult results_visible(bool of_all = true);
    // After a fill of the default stream, or of the thread's, at this address.
    CUresult fill_visible(uint64_t address, bool per_thread);

    uint8_t device() const { return device_; }

    // From now on until its end the call submits what uses shared memory; false where it does already.
    bool begin_use() { return !std::exchange(uses_shared_, true); }
    bool uses_shared() const { return uses_shared_; }

  private:
    CUresult connect_lane();
    CUresult receive_box_of_work(const wire::Box& to);
    CUresult look_in_chunks(uint64_t address, std::byte* host, uint64_t bytes, bool give);
    wire::FrameHeader header(uint16_t opcode, uint8_t flags, size_t bytes, uint64_t order) const;
    CUresult lost();
    // After a reply: tells what waits to be told, and takes note of the status.
    CUresult answered(int32_t status);

    Lane* lane_ = nullptr;
    uint8_t device_ = 0;
    bool uses_shared_ = false;
};

inline constexpr uint64_t kPerThreadStreamHandle = 2;  // CU_STREAM_PER_THREAD

}  // namespace client
