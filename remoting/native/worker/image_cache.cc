#include "image_cache.h"

#include <algorithm>

namespace worker {

ImageCache::Image ImageCache::find(const wire::Digest& digest) {
    const std::lock_guard lock(mutex_);
    auto found = entries_.find(digest);
    if (found == entries_.end()) return nullptr;
    found->second.used = ++clock_;
    return found->second.image;
}

ImageCache::Image ImageCache::add(const wire::Digest& digest, std::string bytes) {
    auto image = std::make_shared<const std::string>(std::move(bytes));
    const std::lock_guard lock(mutex_);
    if (auto known = entries_.find(digest); known != entries_.end()) return known->second.image;
    while (!entries_.empty() && bytes_ + image->size() > most_bytes_) {
        auto oldest = std::min_element(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
            return a.second.used < b.second.used;
        });
        bytes_ -= oldest->second.image->size();
        entries_.erase(oldest);
    }
    bytes_ += image->size();
    entries_.emplace(digest, Entry{image, ++clock_});
    return image;
}

bool ImageCache::reserve_upload(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    if (bytes > most_uploading_ - uploading_) return false;
    uploading_ += bytes;
    return true;
}

void ImageCache::give_back_upload(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    uploading_ -= bytes;
}

Upload::~Upload() {
    drop();
}

void Upload::drop() {
    if (images_) images_->give_back_upload(reserved_);
    reserved_ = 0;
    bytes_ = std::string();
}

void Upload::give_up() {
    const std::lock_guard lock(mutex_);
    if (full_) return;
    full_ = true;
    drop();
}

Upload::Piece Upload::append(ImageCache& images, uint64_t offset, uint64_t total,
                             std::span<const std::byte> piece, std::string& image) {
    const std::lock_guard lock(mutex_);
    if (total != total_ || offset != received_ || piece.empty() || piece.size() > total_ - offset)
        return Piece::malformed;
    images_ = &images;
    received_ += piece.size();
    if (!full_ && images.reserve_upload(piece.size())) {
        reserved_ += piece.size();
        if (bytes_.empty()) bytes_.reserve(total_);  // or it would be there twice while it grows
        bytes_.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    } else if (!full_) {
        full_ = true;
        drop();
    }
    if (received_ < total_) return Piece::kept;
    image = std::move(bytes_);
    drop();
    return full_ ? Piece::no_room : Piece::complete;
}

}  // namespace worker
