// What a person is told of a call that is not there, or not done: once a name and reason, and of so many
// only.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace cuda {

// Any thread; takes no lock. Each library has its own memory of what was told.
enum class Telling { first, again, too_many };
inline Telling note_telling(std::string_view name, std::string_view why) {
    constexpr int kMost = 20;  // a program that tries everything is not to fill the notebook
    static std::atomic<uint64_t> told[kMost];
    uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
    const auto add = [&](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3; };
    for (const char each : name) add(static_cast<unsigned char>(each));
    add(0);
    for (const char each : why) add(static_cast<unsigned char>(each));
    hash |= 1;  // 0 is a free place
    for (auto& place : told) {
        uint64_t earlier = 0;
        if (place.compare_exchange_strong(earlier, hash)) return Telling::first;
        if (earlier == hash) return Telling::again;
    }
    return Telling::too_many;
}

// True once: that there is more is to be told.
inline bool note_more() {
    static std::atomic<bool> noted{false};
    return !noted.exchange(true);
}

// Tells `tell` of `name`, in words that `text` makes.
template <typename Text, typename Tell>
void say_once(std::string_view name, std::string_view why, Text text, Tell tell) {
    const Telling telling = note_telling(name, why);
    if (telling == Telling::first) return tell(text());
    if (telling == Telling::too_many && note_more())
        tell("More calls of this program are not supported; they are not told.");
}

// Tells of `name`, which returns `error`.
template <typename Tell>
void say_unsupported(const char* name, const char* error, Tell tell) {
    say_once(
        name, error,
        [&] {
            return std::string(name) + " is not supported and returns " + error +
                   ". Leave it out or do it in another way; \"What runs, and what does not\" in the "
                   "documentation of gpu-kernels says what there is.";
        },
        tell);
}

}  // namespace cuda
