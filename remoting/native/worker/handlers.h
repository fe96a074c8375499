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

    // Streams that the call has used, besides those that the session has made.
    void uses_default_stream(bool of_thread) const { (of_thread ? used_own_ : used_default_) = true; }
    bool used_default() const { return used_default_; }
    bool used_own() const { return used_own_; }

    // The driver's handle for the client's; false when the session has no such thing.
    bool stream(uint64_t handle, CUstream& stream) const;
    bool event(uint64_t handle, CUevent& event) const;
    // A device's number stands for the session's default pool there.
    bool pool(uint64_t handle, std::shared_ptr<Pool>& pool) const;

    bool may_add_stream(uint64_t handle) const;
    bool may_add_event(uint64_t handle) const;
    CUresult add_stream(uint64_t handle, CUstream stream) const;
    CUresult add_event(uint64_t handle, CUevent event) const;
    bool drop_stream(uint64_t handle, CUstream& stream) const;
    bool drop_event(uint64_t handle, CUevent& event) const;

    // Whether the lease may touch [address, address + bytes).
    bool accessible(uint64_t address, uint64_t bytes) const {
        return worker_.memory.accessible(address, bytes);
    }

  private:
    Worker& worker_;
    Session& session_;
    uint8_t device_;
    mutable bool used_default_ = false, used_own_ = false;
};

// post: nobody waits. ask: the caller does. sync: and looks at results. fetch: what a client of ours fetches
// for itself; an earlier call's error stays for the program's own calls.
enum class How : uint8_t { post, ask, sync, fetch };

// What the call makes the worker and its driver keep of memory (host_memory.h): `briefly` until work in a
// stream is done, the others until something is destroyed. `nothing` also for what gives back, which must
// work when there is no more, and for pieces of one thing, whose handlers look at the whole.
enum class Keeps : uint8_t { nothing, briefly, little, much };

struct Handler {
    const char* name;
    How how;
    CUresult (*run)(Context& context, uint8_t frame_flags, wire::Reader& payload, wire::Writer& reply);
    Keeps keeps = Keeps::briefly;
};

// Null for an opcode that does not exist, and for what the lane sees to itself (Lane::sees_to): the answer is
// a stream of replies, or waits for no other call.
const Handler* find_handler(uint16_t opcode);

// For the generated handlers: sizes that saturate.
using wire::pitched;
using wire::times;

// After a copy from a lane's buffer that went on `stream`: where a GPU may read this machine's memory by
// itself, and later, the buffer must not be used again before it has.
CUresult buffer_is_read(const Context& context, CUstream stream, CUresult result);

// By hand.
CUresult handle_launch(Context& context, uint8_t frame_flags, wire::Reader& payload, wire::Writer& reply);
CUresult handle_copy_in(Context& context, uint8_t frame_flags, wire::Reader& payload, wire::Writer& reply);
CUresult handle_copy_box_in(Context& context, uint8_t frame_flags, wire::Reader& payload,
                            wire::Writer& reply);
CUresult handle_copy_box(Context& context, uint8_t frame_flags, wire::Reader& payload, wire::Writer& reply);
CUresult handle_copy_back(Context& context, uint8_t frame_flags, wire::Reader& payload, wire::Writer& reply);
CUresult handle_allocate(Context& context, uint8_t frame_flags, wire::Reader& payload, wire::Writer& reply);
CUresult handle_make_array(Context& context, uint8_t frame_flags, wire::Reader& payload, wire::Writer& reply);
CUresult handle_make_texture(Context& context, uint8_t frame_flags, wire::Reader& payload,
                             wire::Writer& reply);
CUresult handle_end_texture(Context& context, uint8_t frame_flags, wire::Reader& payload,
                            wire::Writer& reply);
CUresult handle_end_array(Context& context, uint8_t frame_flags, wire::Reader& payload, wire::Writer& reply);
CUresult handle_create_pool(Context& context, uint8_t frame_flags, wire::Reader& payload,
                            wire::Writer& reply);
CUresult handle_set_pool_access(Context& context, uint8_t frame_flags, wire::Reader& payload,
                                wire::Writer& reply);
CUresult handle_create_memory(Context& context, uint8_t frame_flags, wire::Reader& payload,
                              wire::Writer& reply);
CUresult handle_set_access(Context& context, uint8_t frame_flags, wire::Reader& payload, wire::Writer& reply);
CUresult handle_wait_in_stream(Context& context, uint8_t frame_flags, wire::Reader& payload,
                               wire::Writer& reply);
CUresult handle_wait_for_device(Context& context, uint8_t frame_flags, wire::Reader& payload,
                                wire::Writer& reply);
CUresult handle_memory_info(Context& context, uint8_t frame_flags, wire::Reader& payload,
                            wire::Writer& reply);
CUresult handle_end_context(Context& context, uint8_t frame_flags, wire::Reader& payload,
                            wire::Writer& reply);
CUresult handle_host_call(Context& context, uint8_t frame_flags, wire::Reader& payload, wire::Writer& reply);
CUresult handle_context_event(Context& context, uint8_t frame_flags, wire::Reader& payload,
                              wire::Writer& reply);
CUresult handle_stream_memory(Context& context, uint8_t frame_flags, wire::Reader& payload,
                              wire::Writer& reply);
CUresult handle_library_call(Context& context, uint8_t frame_flags, wire::Reader& payload,
                             wire::Writer& reply);
CUresult handle_library_look(Context& context, uint8_t frame_flags, wire::Reader& payload,
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

CUresult handle_map_host(Context& context, uint8_t frame_flags, wire::Reader& payload, wire::Writer& reply);
CUresult handle_set_checks(Context& context, uint8_t frame_flags, wire::Reader& payload, wire::Writer& reply);
CUresult handle_graph_part(Context& context, uint8_t frame_flags, wire::Reader& payload, wire::Writer& reply);
CUresult handle_graph_make(Context& context, uint8_t frame_flags, wire::Reader& payload, wire::Writer& reply);
CUresult handle_graph_set(Context& context, uint8_t frame_flags, wire::Reader& payload, wire::Writer& reply);
CUresult handle_graph_enable(Context& context, uint8_t frame_flags, wire::Reader& payload,
                             wire::Writer& reply);
CUresult handle_graph_input(Context& context, uint8_t frame_flags, wire::Reader& payload,
                            wire::Writer& reply);
CUresult handle_graph_run(Context& context, uint8_t frame_flags, wire::Reader& payload, wire::Writer& reply);
CUresult handle_graph_output(Context& context, uint8_t frame_flags, wire::Reader& payload,
                             wire::Writer& reply);
CUresult handle_reset_libraries(Context& context, uint8_t frame_flags, wire::Reader& payload,
                                wire::Writer& reply);
CUresult handle_graph_look(Context& context, uint8_t frame_flags, wire::Reader& payload, wire::Writer& reply);
CUresult handle_graph_end(Context& context, uint8_t frame_flags, wire::Reader& payload, wire::Writer& reply);

#include "worker_by_hand.inc"

extern const Handler kGeneratedHandlers[];

}  // namespace worker
