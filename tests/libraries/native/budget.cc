// The budget of library calls (softgpu/driver/call_budget.h) for a test in Python.
#include <atomic>

#include "call_budget.h"

using softgpu::driver::Account;
using softgpu::driver::CallBudget;

namespace {

class Slice final : public Account {
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

struct Call {
    Call(CallBudget& budget, Slice& slice, const void* session, const void* context)
        : place(budget, slice, session, context, [this] { ++woken; }) {}
    std::atomic<unsigned> woken{0};
    CallBudget::Place place;
};

}  // namespace

#define BUDGET extern "C" __attribute__((visibility("default")))

BUDGET CallBudget* budget_make() {
    return new CallBudget;
}
BUDGET void budget_end(CallBudget* budget) {
    delete budget;
}
BUDGET uint64_t budget_waiting(const CallBudget* budget) {
    return budget->waiting();
}
BUDGET void budget_wake(CallBudget* budget, const void* session) {
    budget->wake_session(session);
}
BUDGET void budget_wake_context(CallBudget* budget, const void* context) {
    budget->wake_context(context);
}
// An allocation of the program's that finds no room at first.
BUDGET int budget_allocate_and_wait(CallBudget* budget, Slice* slice, const void* session, uint64_t bytes) {
    return budget->wait_for_own(*slice, session, [&] { return slice->take(bytes); });
}

BUDGET Slice* slice_make(uint64_t bytes) {
    return new Slice(bytes);
}
BUDGET void slice_end(Slice* slice) {
    delete slice;
}
BUDGET uint64_t slice_left(const Slice* slice) {
    return slice->left();
}
// What the program has of the slice.
BUDGET int slice_allocate(Slice* slice, uint64_t bytes) {
    return slice->take(bytes);
}
BUDGET void slice_free(Slice* slice, uint64_t bytes) {
    slice->give_back(bytes);
}

BUDGET Call* call_make(CallBudget* budget, Slice* slice, const void* session, const void* context) {
    return new Call(*budget, *slice, session, context);
}
BUDGET void call_end(Call* call) {
    delete call;
}
BUDGET int call_reserve(Call* call, uint64_t bytes) {
    return static_cast<int>(call->place.reserve(bytes));
}
BUDGET unsigned call_woken(const Call* call) {
    return call->woken;
}
