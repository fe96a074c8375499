// How a lane's bytes travel. One implementation now (a stream socket); the protocol above knows nothing else.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <memory>

namespace wire {

// Told while a send or a receive waits, by the thread that waits. Only lanes that have one wake for it.
class Waiting {
  public:
    virtual ~Waiting() = default;
    // Nothing has moved for that long, or a signal came; again and again until something moves.
    virtual void goes_on() = 0;
    // After a goes_on: the wait has ended.
    virtual void over() = 0;
};

// Long beside what a call takes, short beside what a person waits.
inline constexpr long kLongWaitMicroseconds = 50'000;

// A connection with an order: what is sent arrives whole and in sequence, or the connection is broken. One
// thread may send while another receives; not two of a kind.
class Transport {
  public:
    virtual ~Transport() = default;

    // Sends everything. Blocks while the peer does not take it. False when the connection is broken. Changes
    // `parts`.
    virtual bool send(iovec* parts, int count) = 0;

    // Fills `parts` in turn with at least `least` bytes; blocks until then. The number of bytes received, 0
    // when the connection ended or broke. Changes `parts`.
    virtual size_t receive(iovec* parts, int count, size_t least) = 0;

    // From now on `waiting` is told of waits that last so many microseconds; it must outlive the transport.
    // Null, and 0: nobody is. May be called out of a goes_on.
    virtual void tell(Waiting* waiting, long microseconds) = 0;

    // Whether the peer is gone. Does not block.
    virtual bool hung_up() = 0;

    // Ends the connection: calls under way and later ones fail. Any thread.
    virtual void shut() = 0;
};

// Owns `fd`, a connected, blocking stream socket. A receive sleeps at once: polling for 20 us first made a
// round trip five times as long on two busy cores.
std::unique_ptr<Transport> stream_socket(int fd);

}  // namespace wire
