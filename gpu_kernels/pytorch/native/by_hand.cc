// Kernels that are neither the processor's nor the device's own.
#include "by_hand.h"

#include <ATen/ATen.h>
#include <torch/library.h>

namespace gk {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

Tensor or_zeros(const MaybeTensor& tensor, const Tensor& like) {
    return tensor && tensor->defined() ? *tensor : at::zeros_like(like);
}

Tensor biased(const Tensor& gates, const MaybeTensor& bias) {
    return bias && bias->defined() ? gates + *bias : gates;
}

// The workspace holds the gates' activations: input, forget, cell, output.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                             const Tensor& cx, const MaybeTensor& input_bias,
                                             const MaybeTensor& hidden_bias) {
    const Tensor workspace = biased(input_gates, input_bias) + biased(hidden_gates, hidden_bias);
    auto gates = workspace.chunk(4, 1);
    gates[0].sigmoid_();
    gates[1].sigmoid_();
    gates[2].tanh_();
    gates[3].sigmoid_();
    const Tensor cy = gates[1] * cx + gates[0] * gates[2];
    return {gates[3] * cy.tanh(), cy, workspace};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const MaybeTensor& grad_hy, const MaybeTensor& grad_cy,
                                                      const Tensor& cx, const Tensor& cy,
                                                      const Tensor& workspace, bool has_bias) {
    if (!(grad_hy && grad_hy->defined()) && !(grad_cy && grad_cy->defined())) return {};
    const auto gates = workspace.chunk(4, 1);
    const Tensor &in = gates[0], &forget = gates[1], &cell = gates[2], &out = gates[3];
    const Tensor squashed = cy.tanh(), of_hy = or_zeros(grad_hy, cy);
    const Tensor of_cy = of_hy * out * (1 - squashed * squashed) + or_zeros(grad_cy, cy);
    const Tensor of_gates = at::cat({of_cy * cell * in * (1 - in), of_cy * cx * forget * (1 - forget),
                                     of_cy * in * (1 - cell * cell), of_hy * squashed * out * (1 - out)},
                                    1);
    return {of_gates, of_cy * forget, has_bias ? of_gates.sum(0) : Tensor()};
}

// The workspace holds what the gradient needs: reset, update, new, the old state, the hidden part of new.
std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
                                    const MaybeTensor& input_bias, const MaybeTensor& hidden_bias) {
    const auto in = biased(input_gates, input_bias).chunk(3, 1);
    const auto hidden = biased(hidden_gates, hidden_bias).chunk(3, 1);
    const Tensor reset = (in[0] + hidden[0]).sigmoid(), update = (in[1] + hidden[1]).sigmoid();
    const Tensor fresh = (in[2] + reset * hidden[2]).tanh();
    return {fresh + update * (hx - fresh), at::cat({reset, update, fresh, hx, hidden[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy,
                                                                     const Tensor& workspace, bool has_bias) {
    const auto parts = workspace.chunk(5, 1);
    const Tensor &reset = parts[0], &update = parts[1], &fresh = parts[2], &hx = parts[3], &hidden = parts[4];
    const Tensor of_fresh = grad_hy * (1 - update) * (1 - fresh * fresh);
    const Tensor of_update = grad_hy * (hx - fresh) * update * (1 - update);
    const Tensor of_reset = of_fresh * hidden * reset * (1 - reset);
    const Tensor of_input = at::cat({of_reset, of_update, of_fresh}, 1);
    const Tensor of_hidden = at::cat({of_reset, of_update, of_fresh * reset}, 1);
    return {of_input, of_hidden, grad_hy * update, has_bias ? of_input.sum(0) : Tensor(),
            has_bias ? of_hidden.sum(0) : Tensor()};
}

// `keep`: the part that stays.
std::tuple<Tensor, Tensor> fused_dropout(const Tensor& self, double keep,
                                         std::optional<at::Generator> generator) {
    const Tensor mask = at::empty_like(self, self.options().dtype(at::kBool)).bernoulli_(keep, generator);
    return {self * mask * (1 / keep), mask.to(at::kByte)};
}

Tensor masked_scale(const Tensor& self, const Tensor& mask, double scale) {
    return self * mask.to(self.dtype()) * scale;
}

std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& grad, const Tensor& input, at::IntArrayRef shape,
                                             const Tensor& rstd, const MaybeTensor& weight,
                                             std::array<bool, 2> wanted) {
    std::vector<int64_t> inner, outer;
    for (int64_t i = 0; i < input.dim(); ++i) {
        (i < input.dim() - static_cast<int64_t>(shape.size()) ? outer : inner).push_back(i);
    }
    const auto type = rstd.scalar_type();
    const Tensor normal = input.to(type) * rstd, wide = grad.to(type);
    const Tensor scaled = weight && weight->defined() ? wide * weight->to(type) : wide;
    Tensor of_input, of_weight;
    if (wanted[0])
        of_input = ((scaled - normal * (scaled * normal).mean(inner, true)) * rstd).to(input.scalar_type());
    if (wanted[1] && weight && weight->defined()) {
        const Tensor each = wide * normal;
        of_weight = (outer.empty() ? each : each.sum(outer)).to(weight->scalar_type());
    }
    return {of_input, of_weight};
}

// The device's: the processor's kernel draws from no generator that a program could seed for the device.
std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double dropped, std::optional<bool> train) {
    if (input.numel() == 0 || (train && !*train)) {
        return {input.clone(), at::ones_like(input, input.options().dtype(at::kBool))};
    }
    const Tensor mask = at::empty_like(input, input.options().dtype(at::kBool)).bernoulli_(1 - dropped);
    return {input.mul(mask).mul_(dropped == 1 ? 0.0 : 1 / (1 - dropped)), mask};
}

Tensor mm_dtype(const Tensor& a, const Tensor& b, at::ScalarType type) {
    return at::mm(a.to(type), b.to(type));
}
Tensor bmm_dtype(const Tensor& a, const Tensor& b, at::ScalarType type) {
    return at::bmm(a.to(type), b.to(type));
}
Tensor addmm_dtype(const Tensor& self, const Tensor& a, const Tensor& b, at::ScalarType type,
                   const at::Scalar& beta, const at::Scalar& alpha) {
    return at::addmm(self.to(type), a.to(type), b.to(type), beta, alpha);
}
Tensor baddbmm_dtype(const Tensor& self, const Tensor& a, const Tensor& b, at::ScalarType type,
                     const at::Scalar& beta, const at::Scalar& alpha) {
    return at::baddbmm(self.to(type), a.to(type), b.to(type), beta, alpha);
}

}  // namespace

void add_missing(torch::Library& processor, const std::function<bool(const char*)>& lacks) {
    const auto add = [&](const char* name, auto kernel) {
        if (lacks(name)) processor.impl(name, kernel);
    };
    add("_thnn_fused_lstm_cell", lstm_cell);
    add("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
    add("_thnn_fused_gru_cell", gru_cell);
    add("_thnn_fused_gru_cell_backward", gru_cell_backward);
    add("_fused_dropout", fused_dropout);
    add("_masked_scale", masked_scale);
    add("_fused_rms_norm_backward", rms_norm_backward);
    add("mm.dtype", mm_dtype);
    add("bmm.dtype", bmm_dtype);
    add("addmm.dtype", addmm_dtype);
    add("baddbmm.dtype", baddbmm_dtype);
}

void add_to_device(torch::Library& device) {
    device.impl("native_dropout", native_dropout);
}

}  // namespace gk
