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
    while (!entries_.empty() && bytes_ + image->size() > kBytes) {
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

bool Upload::append(uint64_t offset, uint64_t total, std::span<const std::byte> piece) {
    if (total != total_ || offset != bytes_.size() || piece.size() > total_ - offset) return false;
    bytes_.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return true;
}

}  // namespace worker
