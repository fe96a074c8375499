#include "dnn/dropout.h"

#include <cstring>

#include "dnn/dnn_cpu.h"

namespace maths::cudnn {
namespace {

// As they lie in the slice, where others may write them: they steer nothing but what is drawn.
struct States {
    uint64_t seed, next;
};
static_assert(sizeof(States) == kStateBytes);

// Of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
uint64_t mixed(uint64_t z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

// By pieces in the order in which an image's numbers are read.
template <typename A, typename Keep>
void drop_pieces(const Tensor& from, uint64_t data, const Tensor& to, uint64_t result, A scale,
                 const Work& work, Keep keeps) {
    for_pieces(from, work, [&](Piece piece) {
        std::vector<A> numbers = numbers_of<A>(from, data, piece);
        for (A& each : numbers) each = keeps() ? each * scale : 0;
        store(to, result, piece, numbers.data(), {});
    });
}

}  // namespace

void Draws::begin(const Dropout& dropout) {
    const States states{mixed(dropout.seed + 0x9e3779b97f4a7c15), 0};
    std::memcpy(at<void>(dropout.states), &states, sizeof states);
}

Draws::Draws(const Dropout& dropout, uint64_t count) : rate_(dropout.rate) {
    if (rate_ == 0) return;
    States states;
    std::memcpy(&states, at<const void>(dropout.states), sizeof states);
    seed_ = states.seed, next_ = states.next;
    states.next += count;
    std::memcpy(at<void>(dropout.states), &states, sizeof states);
}

bool Draws::keeps() {
    if (rate_ == 0) return true;
    const uint64_t drawn = mixed(seed_ + ++next_ * 0x9e3779b97f4a7c15);
    return static_cast<double>(drawn >> 11) * 0x1p-53 >= rate_;
}

CUresult run(dropout_room& m, Type, Work&) {
    const uint64_t answer[] = {kStateBytes, 0};
    std::memcpy(at<void>(m.answer), answer, sizeof answer);
    return CUDA_SUCCESS;
}

CUresult run(seed& m, Type, Work&) {
    Draws::begin(m.dropoutDesc);
    return CUDA_SUCCESS;
}

// The mask lies in the order in which an image's numbers are read: by dimensions, whatever the strides are.
CUresult run(drop& m, Type, Work& work) {
    reserve_pieces(work, 1, 0, m.xdesc);
    Draws draws(m.dropoutDesc, elements_of(m.xdesc));
    auto* mask = at<uint8_t>(m.reserveSpace);
    return in_precision(
        [&]<typename A>(A) {
            drop_pieces(m.xdesc, m.x, m.ydesc, m.y, static_cast<A>(draws.scale()), work,
                        [&] { return (*mask++ = draws.keeps()) != 0; });
        },
        m.xdesc);
}

CUresult run(drop_back& m, Type, Work& work) {
    reserve_pieces(work, 1, 0, m.dydesc);
    const Dropout& dropout = m.dropoutDesc;
    const double scale = dropout.rate < 1 ? 1 / (1 - dropout.rate) : 0;
    const auto* mask = at<const uint8_t>(m.reserveSpace);
    return in_precision(
        [&]<typename A>(A) {
            drop_pieces(m.dydesc, m.dy, m.dxdesc, m.dx, static_cast<A>(scale), work,
                        [&] { return *mask++ != 0; });
        },
        m.dydesc);
}

}  // namespace maths::cudnn
