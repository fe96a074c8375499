// One lane of a session: reads frames, runs them in order, answers those that ask.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "copy_place.h"
#include "handlers.h"
#include "lane_buffer.h"
#include "transport.h"

namespace worker {

class Lane : private wire::Waiting {
  public:
    Lane(Worker& worker, Session& session, std::unique_ptr<wire::Transport> transport);
    ~Lane();

    // Until the client goes, or the session ends.
    void run();
    // The first words: the devices, or why this lane is refused.
    bool welcome();
    void refuse(std::string_view text);
    wire::Transport& transport() { return *transport_; }

    // Runs the frames at the front of `bytes`; the number of bytes done. A frame that is not whole is left.
    // False when the lane must end. For run(), and for the fuzzer.
    bool consume(std::span<const std::byte> bytes, size_t& done);
    // Whether this is a call that a lane sees to itself: it has no handler.
    static bool sees_to(uint16_t opcode);

  private:
    struct Own {
        uint16_t opcode;
        bool (Lane::*run)(const wire::FrameHeader& header, wire::Reader& payload);
    };
    static const std::array<Own, 8> kOwn;
    static const Own* find_own(uint16_t opcode);

    // Nothing has come for a while: what has become large is given back.
    void goes_on() override;
    void over() override {}
    void watch_for_idleness();

    bool run_frame(const wire::FrameHeader& header, std::span<const std::byte> payload);
    bool post(const wire::FrameHeader& header, const Handler& handler, wire::Reader& payload);
    bool ask(const wire::FrameHeader& header, const Handler& handler, wire::Reader& payload);
    bool copy_out(const wire::FrameHeader& header, wire::Reader& payload);
    bool next_copy_back(const wire::FrameHeader& header, wire::Reader& payload);
    bool interrupt(const wire::FrameHeader& header, wire::Reader& payload);
    bool give_notices(const wire::FrameHeader& header, wire::Reader& payload);
    bool next_host_call(const wire::FrameHeader& header, wire::Reader& payload);
    bool look_into_graph(const wire::FrameHeader& header, wire::Reader& payload);
    bool look_into_memory(const wire::FrameHeader& header, wire::Reader& payload);
    CUresult look(const wire::MemoryLook& look, std::span<const std::byte> given);
    // The lane's own stream on the current device, which waits for no other.
    CUresult own_stream(CUstream& stream);
    // Sends what is in device memory, piece by piece, each when the stream has copied it. False where that
    // ends early: for `result`, or because the client has gone.
    bool send_box(const CopyPlace& place, CUstream stream, CUresult& result);
    bool in_turn(uint64_t after);
    // Whether what the call makes the worker keep has room.
    bool has_room(const Handler& handler, const wire::Reader& payload);
    bool send_reply(CUresult status, std::span<const std::byte> payload);
    bool malformed(const wire::FrameHeader& header, const char* why);
    void use_device(uint8_t device);

    Worker& worker_;
    Session& session_;
    std::unique_ptr<wire::Transport> transport_;
    int current_device_ = -1;
    LaneBuffer arrived_;
    bool receiving_ = false;
    bool watches_ = false;  // for idleness
    wire::Writer reply_;
    std::vector<std::byte> outgoing_;
    std::array<CUstream, wire::kMaxDevices> own_streams_{};  // made when they are needed
};

}  // namespace worker
