// The libraries whose calls are messages, by their number in call.h.
#pragma once

#include "call.h"
#include "operands.h"

namespace maths {

struct Library {
    const char* file;  // between "lib" and ".so"
    uint16_t functions;
    // As LIBRARY_messages.h has them.
    const char* (*name_of)(uint16_t function);
    const char* (*fields_of)(uint16_t function);
    Fit (*look_at)(uint16_t function, void* arguments, size_t bytes, Look& look);
};

// Null for a number that no library has.
const Library* library_of(uint16_t library);

}  // namespace maths
