// Entry points: values that a stream writes to memory, or waits for there.
#include <atomic>

#include "capture.h"
#include "exec/check/unwritten.h"
#include "stream_call.h"
#include "stream_memory_op.h"

using namespace softgpu;
using namespace softgpu::driver;

namespace {

using cuda::StreamMemoryOp;

void require_memory(Context& context, const StreamMemoryOp& op) {
    const auto block = context.driver.memory.find(op.address);
    require(!block || block->place != Place::managed);  // as CUDA has it
    context.driver.memory.checked(op.address, op.bytes());
}

// A mapping may have gone since.
bool still_there(Driver& driver, const StreamMemoryOp& op) noexcept try {
    driver.memory.checked(op.address, op.bytes());
    return true;
} catch (...) {
    return false;
}

template <typename Word>
void store(const StreamMemoryOp& op) {
    std::atomic_ref<Word>(*reinterpret_cast<Word*>(op.address)).store(static_cast<Word>(op.value));
}

void submit_write(Context& context, Stream& stream, const StreamMemoryOp& op) {
    auto write = [&driver = context.driver, op] {
        if (!still_there(driver, op)) return CUDA_ERROR_ILLEGAL_ADDRESS;
        op.bytes() == 4 ? store<uint32_t>(op) : store<uint64_t>(op);
        check::Unwritten::get().written(op.address, op.bytes());
        return CUDA_SUCCESS;
    };
    context.driver.scheduler.submit(stream.queue, {.body = write});
}

// What has not begun until this goes.
class Gate {
  public:
    explicit Gate(Scheduler& scheduler) : scheduler_(scheduler) {}
    ~Gate() { scheduler_.end(opens); }
    Gate(const Gate&) = delete;
    Gate& operator=(const Gate&) = delete;
    const CompletionRef opens = std::make_shared<Completion>();

  private:
    Scheduler& scheduler_;
};

void submit_wait(Context& context, Stream& stream, const StreamMemoryOp& op) {
    Scheduler& scheduler = context.driver.scheduler;
    const auto met = std::make_shared<Completion>();
    auto begin = [&driver = context.driver, group = context.group, session = current_session(), op, met] {
        const bool there = still_there(driver, op);
        if (there) {
            driver.value_waits.add({op, group, session, Scheduler::interrupts_before(), met});
        } else {
            driver.scheduler.end(met);
        }
        return there ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
    };
    // Whoever waits until nothing uses a mapping any more must find the second operation once the first has
    // looked the mapping up.
    const Gate gate(scheduler);
    scheduler.submit(stream.queue, {.body = begin, .after = {gate.opens}, .always = true});
    scheduler.submit(stream.queue, {.after = {met}});
}

CUresult submit(CUstream handle, const std::vector<StreamMemoryOp>& ops) {
    return stream_call(handle, [&](Context& context, Stream& stream) {
        require_not_captured(stream);
        for (const StreamMemoryOp& op : ops) {
            if (op.waits() || op.writes()) require_memory(context, op);
        }
        // A barrier is what the order of a stream is here.
        for (const StreamMemoryOp& op : ops) {
            if (op.writes()) submit_write(context, stream, op);
            if (op.waits()) submit_wait(context, stream, op);
        }
    });
}

CUresult submit_one(CUstream handle, const StreamMemoryOp& op) {
    const CUresult error = cuda::check_stream_memory_op(op);
    return error == CUDA_SUCCESS ? submit(handle, {op}) : error;
}

}  // namespace

extern "C" {

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
    return submit_one(stream, {CU_STREAM_MEM_OP_WAIT_VALUE_32, flags, addr, value});
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
    return submit_one(stream, {CU_STREAM_MEM_OP_WAIT_VALUE_64, flags, addr, value});
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
    return submit_one(stream, {CU_STREAM_MEM_OP_WRITE_VALUE_32, flags, addr, value});
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
    return submit_one(stream, {CU_STREAM_MEM_OP_WRITE_VALUE_64, flags, addr, value});
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams* paramArray,
                               unsigned int flags) {
    std::vector<StreamMemoryOp> ops;
    const CUresult error = cuda::read_stream_memory_ops(count, paramArray, flags, ops);
    return error == CUDA_SUCCESS ? submit(stream, ops) : error;
}
}
