// Images by their digest, so that a program that is started again does not send them again. One worker serves
// one lease: what a client puts in here reaches nobody else; the digest is checked all the same.
#pragma once

#include <algorithm>
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
    static constexpr uint64_t kUploading = 2 * wire::kMaxImage;

    // Before there are images. Of the worker's own memory, `bytes`, a part is enough for both.
    void set_limit(uint64_t bytes) {
        most_bytes_ = std::min(kBytes, bytes / 8);
        most_uploading_ = std::min(kUploading, bytes / 2);
    }

    // Null when it is not there (any more).
    Image find(const wire::Digest& digest);
    // Keeps `bytes` under its digest; the least recently used make room. The image has a NUL behind it.
    Image add(const wire::Digest& digest, std::string bytes);

    // Room for bytes of uploads that are under way, of all sessions together. Every reserve that succeeds is
    // given back.
    bool reserve_upload(uint64_t bytes);
    void give_back_upload(uint64_t bytes);

  private:
    struct Entry {
        Image image;
        uint64_t used;
    };
    std::mutex mutex_;
    std::map<wire::Digest, Entry> entries_;
    uint64_t bytes_ = 0;
    uint64_t clock_ = 0;
    uint64_t uploading_ = 0;
    uint64_t most_bytes_ = kBytes, most_uploading_ = kUploading;
};

// An image on its way. Pieces come in order; a client that sends two at once on different lanes is refused.
class Upload {
  public:
    enum class Piece : uint8_t {
        malformed,  // it does not follow the last one
        kept,
        no_room,   // it was the last one, and not all of them found room
        complete,  // it was the last one: `image` has all of them
    };

    explicit Upload(uint64_t total) : total_(total) {}
    ~Upload();
    Upload(const Upload&) = delete;
    Upload& operator=(const Upload&) = delete;

    // `images` must outlive this.
    Piece append(ImageCache& images, uint64_t offset, uint64_t total, std::span<const std::byte> piece,
                 std::string& image);
    // Nothing is kept of what comes: there is no room.
    void give_up();

  private:
    void drop();

    std::mutex mutex_;
    const uint64_t total_;
    uint64_t received_ = 0;
    uint64_t reserved_ = 0;  // of images_
    ImageCache* images_ = nullptr;
    bool full_ = false;
    std::string bytes_;
};

}  // namespace worker
