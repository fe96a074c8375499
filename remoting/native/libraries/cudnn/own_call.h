// One call of a function of functions.txt, in the program's process: what every exported function does.
#pragma once

#include <memory>

#include "handle.h"
#include "operands.h"

#define MATHS_EXPORT extern "C" __attribute__((visibility("default")))

namespace maths::cudnn {

class OwnCall {
  public:
    OwnCall(const void* handle, uint16_t function, bool wide);

    // A value of the host, which is sent.
    void scalar(Scalar& to, const void* from, Type type);
    // A copy of what the descriptor says now. Null is one that says nothing.
    template <typename Descriptor>
    void describe(Descriptor& to, const void* descriptor) {
        const auto found = ::cudnn::all<Descriptor>().find(descriptor);
        wrong_ |= descriptor && !found;
        to = found ? *found : Descriptor{};
    }
    void describe(Rnn& to, const void* descriptor) {
        const auto found = ::cudnn::all<::cudnn::Recurrent>().find(descriptor);
        wrong_ |= descriptor && !found;
        to = found ? found->now() : Rnn{};
    }

    int send(void* message, size_t bytes);
    // The same for a question: the end writes two numbers to the memory that `place`, of the message, is the address of.
    struct Answer {
        uint64_t numbers[2];
    };
    int ask(void* message, size_t bytes, uint64_t& place, Answer& answer);

  private:
    int submit(const void* message, size_t bytes) const;

    const std::shared_ptr<::cudnn::Handle> handle_;
    const uint16_t function_;
    bool wrong_ = false;
};

}  // namespace maths::cudnn
