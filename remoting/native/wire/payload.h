// Reading and writing the payload of frames and replies, with every length checked.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

namespace wire {

// Takes values off the front. After the first take that does not fit, everything fails.
class Reader {
  public:
    explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

    template <typename T>
    bool take(T& value) {
        static_assert(std::is_trivially_copyable_v<T>);
        std::span<const std::byte> bytes;
        if (!take_bytes(sizeof(T), bytes)) return false;
        std::memcpy(&value, bytes.data(), sizeof(T));
        return true;
    }

    bool take_bytes(size_t count, std::span<const std::byte>& bytes) {
        if (failed_ || count > rest_.size()) {
            failed_ = true;
            return false;
        }
        bytes = rest_.first(count);
        rest_ = rest_.subspan(count);
        return true;
    }

    bool take_text(size_t count, std::string_view& text) {
        std::span<const std::byte> bytes;
        if (!take_bytes(count, bytes)) return false;
        text = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
        return true;
    }

    // True when everything was taken, and nothing was missing.
    bool finished() const { return !failed_ && rest_.empty(); }
    std::span<const std::byte> rest() const { return rest_; }

  private:
    std::span<const std::byte> rest_;
    bool failed_ = false;
};

class Writer {
  public:
    template <typename T>
    void put(const T& value) {
        static_assert(std::is_trivially_copyable_v<T>);
        put_bytes(&value, sizeof value);
    }
    void put_bytes(const void* from, size_t count) {
        const auto* first = static_cast<const std::byte*>(from);
        bytes_.insert(bytes_.end(), first, first + count);
    }
    void put_text(std::string_view text) { put_bytes(text.data(), text.size()); }
    // Keeps the room, but for that of a rare large message.
    void clear() {
        constexpr size_t kKept = 512 << 10;
        bytes_.clear();
        if (bytes_.capacity() > kKept) bytes_.shrink_to_fit();
    }
    // What it keeps, and gives all of it up.
    size_t kept() const { return bytes_.capacity(); }
    void release() { bytes_ = std::vector<std::byte>(); }
    std::span<const std::byte> bytes() const { return bytes_; }
    size_t size() const { return bytes_.size(); }

  private:
    std::vector<std::byte> bytes_;
};

}  // namespace wire
