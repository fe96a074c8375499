// What a program says to the compiler and linker: numbers, and where it wants their words.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "cuda_abi.h"

namespace front {

// Where the program wants words. They are cut to the room that there is; how long they are then goes out in
// place of the room. There are none until they are told.
struct JitLog {
    char* text = nullptr;
    uint32_t room = 0;  // with the NUL; 0: it wants none
    void** size = nullptr;
    void tell(std::string_view words) const;
};

struct JitOptions {
    JitOptions() = default;
    // Throws INVALID_VALUE for what is no option, and NOT_SUPPORTED for symbols.
    JitOptions(unsigned count, const CUjit_option* options, void** values);
    static constexpr unsigned kMost = 64;  // of one call

    struct Number {
        CUjit_option option;
        uint32_t value;
    };
    std::vector<Number> numbers;  // but how many threads compile: they would not be this machine's
    std::optional<uint32_t> number(CUjit_option option) const;

    JitLog info, error;
    void** time = nullptr;
    void tell_time(std::chrono::duration<float, std::milli> took) const;

  private:
    void add(CUjit_option option, void*& value);
    void add_log(CUjit_option option, void*& value);
};

}  // namespace front
