// Asks the Jupyter server for the kernel's slice, at the socket that GPU_KERNELS_ATTACH names; the
// conversation is in docs/design/lab.md, "The attach point". A request is one line of JSON, the answer lines
// of JSON until one that is not `waiting`. The server tells how the line moves at least once a second, so
// silence for kSilence is a server that has gone.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "hello.h"

namespace wire {

// How a request waits: its place counts from 1 (0: not known), times are in seconds (below 0: nobody knows).
struct Waits {
    std::string size;
    std::string text;
    int position = 0;
    double starts_in = -1;
    double since = 0;
};

enum class Attached {
    yes,          // the credentials are those of the slice
    no,           // refused, released or waiting no longer: the text says why and what to do
    interrupted,  // whoever was told of the wait did not want to go on
    nobody,       // there is no attach point, or nobody answers there
};

struct AttachAnswer {
    Attached attached = Attached::nobody;
    Credentials credentials;
    std::string size;
    std::string text;
};

inline constexpr std::chrono::seconds kSilence{30};

// Whether the environment names an attach point.
bool has_attach_point();

// Sends {"do": "`what`"} and listens. `goes_on` is called with each line that says how the request waits, and
// with null when a signal or a quarter of a second has passed without one; false from it ends the
// conversation, and the request stays in its line.
AttachAnswer ask_attach_point(std::string_view what, const std::function<bool(const Waits*)>& goes_on);

}  // namespace wire
