// Where a process gets its slice from: the attach point of its kernel, where it waits for as long as the line
// takes and shows for how long, or the environment.
#pragma once

#include <string>

#include "hello.h"

namespace client {

enum class Got {
    slice,
    refusal,    // the text is for the user
    interrupt,  // the place in the line is kept
};

Got get_slice(wire::Credentials& credentials, std::string& text);

}  // namespace client
