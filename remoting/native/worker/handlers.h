// What handles a call: the interface between a lane and the calls, generated (worker_calls.cc) or by hand.
#pragma once

#include <cstdint>

#include "calls_wire.h"
#include "cuda_abi.h"
#include "driver.h"
#include "payload.h"
#include "protocol.h"
#include "session.h"
#include "worker.h"

namespace worker {

// A handler's word that the frame cannot be what our client sends. Ends the session.
inline constexpr CUresult kMalformed = static_cast<CUresult>(-1);

// Where a call runs: its session, its device. Made by the lane for each frame.
class Context {
  public:
    Context(Worker& worker, Session& session, uint8_t device)
        : worker_(worker), session_(session), device_(device) {}

    const Driver& driver() const { return worker_.driver; }
    Worker& worker() const { return worker_; }
    Session& session() const { return session_; }
    uint8_t device() const { return device_; }

    // The driver's handle for the client's; false when the session has no such thing.
    bool stream(uint64_t handle, CUstream& stream) const;
    bool event(uint64_t handle, CUevent& event) const;
    bool graph(uint64_t handle, CUgraph& graph) const;
    bool exec(uint64_t handle, CUgraphExec& exec) const;
    bool pool(uint64_t device, CUmemoryPool& pool) const;

    bool may_add_stream(uint64_t handle) const;
    bool may_add_event(uint64_t handle) const;
    bool may_add_graph(uint64_t handle) const;
    bool may_add_exec(uint64_t handle) const;
    CUresult add_stream(uint64_t handle, CUstream stream) const;
    CUresult add_event(uint64_t handle, CUevent event) const;
    CUresult add_graph(uint64_t handle, CUgraph graph) const;
    CUresult add_exec(uint64_t handle, CUgraphExec exec) const;
    bool drop_stream(uint64_t handle, CUstream& stream) const;
    bool drop_event(uint64_t handle, CUevent& event) const;
    bool drop_graph(uint64_t handle, CUgraph& graph) const;
    bool drop_exec(uint64_t handle, CUgraphExec& exec) const;

    // Whether work on `stream` is recorded and not done. A copy from or to the lane's buffers is then
    // refused: it would run later, when they hold something else.
    bool captures(CUstream stream) const;

    // Whether the lease may touch [address, address + bytes).
    bool accessible(uint64_t address, uint64_t bytes) const {
        return worker_.memory.accessible(address, bytes);
    }

  private:
    Worker& worker_;
    Session& session_;
    uint8_t device_;
};

enum class How : uint8_t { post, ask, sync };

struct Handler {
    const char* name;
    How how;
    CUresult (*run)(Context& context, uint8_t frame_flags, wire::Reader& payload, wire::Writer& reply);
};

// Null for an opcode that does not exist. kOpCopyOut is not here: its answer is a stream of replies, which
// the lane sends itself.
const Handler* find_handler(uint16_t opcode);

// For the generated handlers: sizes that saturate.
constexpr uint64_t times(uint64_t a, uint64_t b) {
    uint64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}
// What `rows` rows of `width` bytes take, `pitch` bytes apart.
constexpr uint64_t pitched(uint64_t pitch, uint64_t width, uint64_t rows) {
    if (rows == 0 || width == 0) return 0;
    if (width > pitch && rows > 1) return UINT64_MAX;
    uint64_t bytes = 0;
    return __builtin_add_overflow(times(pitch, rows - 1), width, &bytes) ? UINT64_MAX : bytes;
}

// By hand.
CUresult handle_launch(Context& context, uint8_t frame_flags, wire::Reader& payload, wire::Writer& reply);
CUresult handle_copy_in(Context& context, uint8_t frame_flags, wire::Reader& payload, wire::Writer& reply);
CUresult handle_allocate(Context& context, uint8_t frame_flags, wire::Reader& payload, wire::Writer& reply);
CUresult handle_memory_info(Context& context, uint8_t frame_flags, wire::Reader& payload,
                            wire::Writer& reply);
CUresult handle_reset_device(Context& context, uint8_t frame_flags, wire::Reader& payload,
                             wire::Writer& reply);
CUresult handle_load_library(Context& context, uint8_t frame_flags, wire::Reader& payload,
                             wire::Writer& reply);
CUresult handle_upload_image(Context& context, uint8_t frame_flags, wire::Reader& payload,
                             wire::Writer& reply);
CUresult handle_unload_library(Context& context, uint8_t frame_flags, wire::Reader& payload,
                               wire::Writer& reply);
CUresult handle_get_global(Context& context, uint8_t frame_flags, wire::Reader& payload, wire::Writer& reply);
CUresult handle_set_attribute(Context& context, uint8_t frame_flags, wire::Reader& payload,
                              wire::Writer& reply);
CUresult handle_link(Context& context, uint8_t frame_flags, wire::Reader& payload, wire::Writer& reply);

#include "worker_by_hand.inc"

extern const Handler kGeneratedHandlers[];

}  // namespace worker
