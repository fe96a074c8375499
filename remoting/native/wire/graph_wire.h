// Executable graphs on the wire. The client keeps the graph, and sends it when it is made executable: as
// steps in an order that their edges allow, child graphs dissolved, so that a description cannot hold a
// circle. The worker builds the driver's graph of it, and a replay is one message.
//
// Host memory. A graph copies from and to the program's memory when it runs, not when it was made. So the
// copies of a graph work on an *image* on the worker: the client lays the ranges of its memory that the graph
// uses out in it, sends what the graph reads with each launch, and fetches what the graph has written when
// the program waits. Ranges that overlap share their place, so a copy out and a copy in of one graph meet in
// it. A launch has an image of its own as long as it runs: what is sent for the next one does not disturb it.
#pragma once

#include "protocol.h"

namespace wire {

inline constexpr uint32_t kMaxGraphSteps = 1u << 19;
inline constexpr uint32_t kMaxGraphEdges = 4u << 20;
inline constexpr uint64_t kMaxGraphBytes = 128ull * 1024 * 1024;  // of a description
inline constexpr uint64_t kMaxGraphImage = 256ull * 1024 * 1024;  // of one launch
inline constexpr uint64_t kMaxGraphImages = 2 * kMaxGraphImage;   // of a session

enum class StepKind : uint32_t { nothing = 0, kernel, copy, fill, host, wait_event, record_event };

// kOpGraphPart, posted: u64 graph, bytes of its description. kOpGraphMake, asked: GraphHead; the description
// is complete, and used up. A description is, for each step: GraphStep, u32 * after_count (steps before it),
// and `bytes` of what it does:
//   kernel                    LaunchHead (its stream is 0), attributes, parameters
//   copy                      GraphCopy
//   fill                      GraphFill
//   wait_event, record_event  u64 event
//   host                      u64 ticket: the function is the client's (worker/host_calls.h), once a launch
struct GraphHead {
    uint64_t graph;  // minted by the client
    uint64_t flags;  // as for cuGraphInstantiateWithFlags
    uint64_t image_bytes;
    uint32_t steps;
    uint32_t zero;
};

struct GraphStep {
    uint32_t kind;  // StepKind
    uint32_t after_count;
    uint32_t bytes;
    uint32_t zero;
};

// The address of an end in host memory is a place in the image.
struct GraphCopy {
    Box to, from;
    uint32_t to_image, from_image;
};

struct GraphFill {
    uint64_t address, pitch, width, height;
    uint32_t value, element;
};

// kOpGraphSet, posted: GraphChange, and what the step does from the next launch on. kOpGraphEnable, posted:
// GraphChange with `kind` as 0 or 1.
struct GraphChange {
    uint64_t graph;
    uint32_t step;
    uint32_t kind;
};

// kOpGraphInput, posted: GraphInput and bytes for the image of the next launch.
struct GraphInput {
    uint64_t graph, image_bytes, offset;
};

// kOpGraphRun, posted.
struct GraphRun {
    uint64_t graph, stream, image_bytes;
};

// kOpGraphOutput, asked: u32 done, and the bytes of the last launch's image when it is; with `wait`, once it
// is. Done without bytes where the launch has failed.
struct GraphOutput {
    uint64_t graph, offset;
    uint32_t bytes;  // at most kChunk
    uint32_t wait;
};

// kOpGraphLook, asked: GraphLook; as kOpGraphOutput, but of the launch that is running, as its image is
// now. For a function that the launch waits for: what the copies before it have written is there. With `give`
// the other way: the bytes follow, for the copies behind the function. In no order with other calls, which
// may wait for the function.
struct GraphLook {
    uint64_t graph, offset;
    uint32_t bytes;  // at most kChunk
    uint32_t give;
};

// kOpGraphEnd, posted: u64 graph.

}  // namespace wire
