// Images by their digest, so that a program that is started again does not send them again. One worker serves
// one lease: what a client puts in here reaches nobody else; the digest is checked all the same.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>

#include "protocol.h"

namespace worker {

class ImageCache {
  public:
    using Image = std::shared_ptr<const std::string>;
    static constexpr uint64_t kBytes = 256ull << 20;

    // Null when it is not there (any more).
    Image find(const wire::Digest& digest);
    // Keeps `bytes` under its digest; the least recently used make room. The image has a NUL behind it.
    Image add(const wire::Digest& digest, std::string bytes);

  private:
    struct Entry {
        Image image;
        uint64_t used;
    };
    std::mutex mutex_;
    std::map<wire::Digest, Entry> entries_;
    uint64_t bytes_ = 0;
    uint64_t clock_ = 0;
};

// An image on its way. Pieces come in order.
class Upload {
  public:
    explicit Upload(uint64_t total) : total_(total) {}
    // False when the piece does not follow the last one.
    bool append(uint64_t offset, uint64_t total, std::span<const std::byte> piece);
    bool complete() const { return bytes_.size() == total_; }
    std::string take() { return std::move(bytes_); }

  private:
    uint64_t total_;
    std::string bytes_;
};

}  // namespace worker
