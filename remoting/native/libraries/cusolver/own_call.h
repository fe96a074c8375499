// One call of a function of functions.txt, in the program's process: what every exported function does.
#pragma once

#include <cstddef>
#include <memory>

#include "handle.h"
#include "host_values.h"
#include "program_look.h"

#define MATHS_EXPORT extern "C" __attribute__((visibility("default")))

namespace maths::cusolver {

class OwnLook : public libraries::ProgramLook {
  public:
    OwnLook(bool wide, bool on_device) : ProgramLook(kGkCusolver, LIBRARY_MAJOR, wide, on_device) {}
};

class OwnCall {
  public:
    OwnCall(const void* handle, uint16_t function, bool wide);
    OwnCall(std::shared_ptr<::cusolver::Handle> handle, uint16_t function, bool wide);

    void settings(Settings& to, const void* settings);
    // A result that the program takes on the host, and the ends know on the device alone.
    void answer(uint64_t& to, void* at, Type type);
    int send(void* message, size_t bytes);
    // The same for a function with answers: they are there when it returns.
    int send_and_fetch(void* message, size_t bytes);

  private:
    int submit(const void* message, size_t bytes) const;

    const std::shared_ptr<::cusolver::Handle> handle_;
    const uint16_t function_;
    const bool wide_;
    bool invalid_ = false;
    libraries::HostValues answers_;
};

// How much a program is to bring for a function to work in: the ends bring their own.
int answer_room(const void* handle, const char* function, const Look& look, int* count);
int answer_room(const void* handle, const char* function, const Look& look, size_t* bytes,
                size_t* host_bytes);

}  // namespace maths::cusolver
