#include "exec/texture/objects.h"

namespace softgpu::texture {

void Objects::put(uint64_t handle, std::shared_ptr<const Object> object) {
    const std::unique_lock lock(mutex_);
    objects_[handle] = std::move(object);
    generation_.fetch_add(1, std::memory_order_release);
}

void Objects::remove(uint64_t handle) {
    const std::unique_lock lock(mutex_);
    objects_.erase(handle);
    generation_.fetch_add(1, std::memory_order_release);
}

std::shared_ptr<const Object> Objects::find(uint64_t handle) const {
    const std::shared_lock lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
}

bool is_there(const Elements& elements, const DeviceMemory& memory) {
    for (const Level& level : elements.levels) {
        if (memory.host_pointer(level.base, span(level, elements.bytes())) == nullptr) return false;
    }
    return true;
}

Cache::Found Cache::find(const Objects* objects, const DeviceMemory& memory, uint64_t handle) {
    if (objects == nullptr) return {};
    // What is read before the tables are: a change in between is seen the next time.
    const uint64_t objects_now = objects->generation(), memory_now = memory.generation();
    Entry& entry = entries_[(handle >> 4) % kEntries];
    const bool current = entry.object != nullptr && entry.handle == handle && entry.objects == objects_now;
    if (!current) {
        entry = {handle, objects_now, 0, objects->find(handle)};
        if (entry.object == nullptr) return {};
    }
    if (entry.memory != memory_now) {
        if (!is_there(entry.object->texture.elements, memory)) return {State::freed, entry.object.get()};
        entry.memory = memory_now;
    }
    return {State::found, entry.object.get()};
}

void Cache::clear() {
    for (Entry& entry : entries_) entry = {};
}

}  // namespace softgpu::texture
