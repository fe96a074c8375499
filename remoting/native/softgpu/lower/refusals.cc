#include "lower/refusals.h"

#include "exec/handlers.h"
#include "exec/readable_name.h"

namespace softgpu::lower {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr size_t kMaxReason = 500;    // characters: an instruction may have any number of modifiers
constexpr uint32_t kFrameBytes = 64;  // what the engine aligns frames to

std::string reason(const ptx::Error& error, std::string_view input) {
    std::string text = ptx::describe(error, input);
    if (text.size() > kMaxReason) text.replace(kMaxReason, std::string::npos, "...");
    return text;
}

void emit_refusal(Image& image, Function& function, unsigned line) {
    Op op{};
    op.fn = find_handler("refused"_op);
    op.d = op.a = op.b = op.c = op.e = kNoSlot;
    op.line = line;
    op.site = uint32_t(image.ops.size());
    function.prologue = function.first = uint32_t(image.ops.size());
    image.ops.push_back(op);
    function.end = uint32_t(image.ops.size());
    function.slot_bytes = kFrameBytes;
}

}  // namespace

void Refusals::remember(const ptx::Error& error, size_t number) {
    if (!first_) first_ = First{error, number};
}

void Refusals::refuse(Image& image, uint32_t index, const ptx::Error& error, size_t number,
                      std::string_view input) {
    remember(error, number);
    Function& function = image.functions[index];
    Function bare;
    bare.name = std::move(function.name);
    bare.input = std::move(function.input);
    bare.kernel = function.kernel;
    bare.refusal = reason(error, input);
    function = std::move(bare);
    emit_refusal(image, function, error.line);
}

void Refusals::refuse_kernel(Image& image, uint32_t index, const ptx::Error& error, size_t number,
                             std::string_view input) {
    remember(error, number);
    image.refused.push_back({image.functions[index].name, reason(error, input)});
}

void Refusals::spread(const Image& image) {
    const auto& functions = image.functions;
    if (!first_) return;
    culprit_.assign(functions.size(), kNone);
    std::vector<std::vector<uint32_t>> callers(functions.size());
    std::vector<uint32_t> work;
    for (uint32_t i = 0; i < functions.size(); ++i) {
        for (const uint32_t callee : functions[i].calls) callers[callee].push_back(i);
        for (const uint32_t launched : functions[i].launches) callers[launched].push_back(i);
        if (!functions[i].refusal.empty()) culprit_[i] = i, work.push_back(i);
    }
    while (!work.empty()) {
        const uint32_t callee = work.back();
        work.pop_back();
        for (const uint32_t caller : callers[callee]) {
            if (culprit_[caller] == kNone) culprit_[caller] = culprit_[callee], work.push_back(caller);
        }
    }
}

bool Refusals::refused(Image& image, uint32_t kernel) const {
    if (culprit_.empty() || culprit_[kernel] == kNone) return false;
    const Function& culprit = image.functions[culprit_[kernel]];
    std::string why = culprit.refusal;
    if (culprit_[kernel] != kernel) why += " in " + readable_name(culprit.name);
    image.refused.push_back({image.functions[kernel].name, std::move(why)});
    return true;
}

void Refusals::rethrow(size_t& failed) const {
    if (!first_) return;
    failed = first_->number;
    throw first_->error;
}

}  // namespace softgpu::lower
