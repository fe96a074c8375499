// What a person is told of a call that is not there: once a name, and of so many names only.
#pragma once

#include <atomic>
#include <cstring>
#include <string>

namespace cuda {

// Tells `tell` of `name`, in words that `text` makes. Any thread; takes no lock. Each library has its own
// memory of what was told.
template <typename Text, typename Tell>
void say_once(const char* name, Text text, Tell tell) {
    constexpr int kMostNames = 20;  // a program that tries everything is not to fill the notebook
    static std::atomic<const char*> told[kMostNames];
    for (auto& place : told) {
        const char* earlier = nullptr;
        if (place.compare_exchange_strong(earlier, name)) {
            return tell(text());
        }
        if (std::strcmp(earlier, name) == 0) return;
    }
    static std::atomic<bool> said_more{false};
    if (!said_more.exchange(true)) tell("More calls of this program are not supported; they are not told.");
}

// Tells of `name`, which returns `error`.
template <typename Tell>
void say_unsupported(const char* name, const char* error, Tell tell) {
    say_once(
        name,
        [&] {
            return std::string(name) + " is not supported and returns " + error +
                   ". Leave it out or do it in another way; \"What runs, and what does not\" in the "
                   "documentation of gpu-kernels says what there is.";
        },
        tell);
}

}  // namespace cuda
