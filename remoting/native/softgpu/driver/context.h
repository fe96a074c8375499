// Contexts: what belongs together and fails together.
#pragma once

#include <array>
#include <functional>
#include <set>

#include "exec/texture/objects.h"
#include "front/context.h"
#include "stream.h"

namespace softgpu::driver {

class Driver;

class Context : public Object, public front::Context, public std::enable_shared_from_this<Context> {
  public:
    static constexpr Kind kKind = Kind::context;
    // Makes the context with its default stream, without a handle. Throws Failure.
    static std::shared_ptr<Context> create(Driver& driver, CUdevice device, unsigned flags);

    Driver& driver;
    const std::shared_ptr<QueueGroup> group;
    texture::Objects objects;  // that its kernels may use

    // CUDA_SUCCESS, or the error of the operation that failed first.
    CUresult status() const { return group->status(); }
    std::shared_ptr<Stream> legacy_stream() const;  // throws CONTEXT_IS_DESTROYED
    std::shared_ptr<Stream> new_stream(unsigned flags, int priority);
    // What a program passes as a stream: a handle, 0, CU_STREAM_LEGACY or CU_STREAM_PER_THREAD.
    std::shared_ptr<Stream> stream(CUstream handle);

    // Handles that end with the context.
    void own(uint64_t handle);
    void disown(uint64_t handle);

    size_t limit(CUlimit limit) const;
    // As a GPU does, takes the device's memory for larger stacks, buffers and heaps than there are to begin
    // with, though they lie elsewhere here. Throws OUT_OF_MEMORY.
    void set_limit(CUlimit limit, size_t value);

    // Takes its handle away, once. What is returned ends the work, which may wait for functions of the
    // program, and frees what the context owns.
    std::function<void()> destroy();

  private:
    using LimitMemory = std::array<uint64_t, CU_LIMIT_MAX>;
    Context(Driver& driver, CUdevice device, unsigned flags);
    void end(const std::set<uint64_t>& owned, const LimitMemory& of_limits);

    std::mutex setting_limit_;  // which may wait for work; with it, mutex_ may be taken
    mutable std::mutex mutex_;
    std::shared_ptr<Stream> legacy_;
    std::set<uint64_t> owned_;
    std::array<size_t, CU_LIMIT_MAX> limits_{};
    LimitMemory limit_memory_{};  // what is taken for them; 0: nothing
    bool destroyed_ = false;
};

}  // namespace softgpu::driver
