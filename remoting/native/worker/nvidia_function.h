// What a call of NVIDIA's libraries is not done for, noted for the line that the session's person gets: a
// function that the server's library lacks, being older than what the program was made for, or a reason.
#pragma once

#include <string>
#include <utility>

namespace worker {

// Null where the library lacks it.
void* function_of(void* library, const std::string& name);
// The first that was not found by this thread since this was asked last; empty where all were.
std::string take_missing_function();

// The first reason of this thread's call: what, how much, what now. Gives the status back.
void note_refusal(std::string why);
template <typename Status>
Status refused(Status status, std::string why) {
    note_refusal(std::move(why));
    return status;
}
// Empty where none was noted since this was asked last.
std::string take_refusal();

}  // namespace worker
