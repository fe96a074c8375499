// The budget of the CPU end (libraries/cpu/budget.h) for a test in Python.
#include "budget.h"

#include <atomic>

using maths::Budget;

namespace {

class Slice final : public maths::Source {
  public:
    explicit Slice(uint64_t all) : all_(all), left_(all) {}
    uint64_t all() const override { return all_; }
    bool take(uint64_t bytes) override {
        uint64_t left = left_;
        do {
            if (bytes > left) return false;
        } while (!left_.compare_exchange_weak(left, left - bytes));
        return true;
    }
    void give_back(uint64_t bytes) override { left_ += bytes; }
    uint64_t left() const { return left_; }

  private:
    const uint64_t all_;
    std::atomic<uint64_t> left_;
};

struct Tried {
    Slice slice;
    Budget budget;
};

}  // namespace

#define BUDGET extern "C" __attribute__((visibility("default")))

BUDGET Tried* budget_of(uint64_t slice) {
    return new Tried{Slice(slice), {}};
}
BUDGET void budget_end(Tried* tried) {
    delete tried;
}
BUDGET Budget::Room* budget_room() {
    return new Budget::Room;
}
BUDGET int budget_reserve(Tried* tried, uint64_t bytes, const std::atomic<int>* stop, Budget::Room* room) {
    const auto stopped = [stop] { return stop->load() != 0; };
    return static_cast<int>(tried->budget.reserve(bytes, tried->slice, stopped, *room));
}
BUDGET void budget_give_back(Budget::Room* room) {
    delete room;
}
// What the program has of the slice.
BUDGET int budget_allocate(Tried* tried, uint64_t bytes) {
    return tried->slice.take(bytes);
}
BUDGET void budget_free(Tried* tried, uint64_t bytes) {
    tried->slice.give_back(bytes);
}
BUDGET uint64_t budget_left(const Tried* tried) {
    return tried->slice.left();
}
BUDGET uint64_t budget_waiting(const Tried* tried) {
    return tried->budget.waiting();
}
