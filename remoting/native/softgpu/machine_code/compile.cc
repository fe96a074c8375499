#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string_view>
#include <unordered_set>

#include "exec/handlers.h"
#include "exec/launch.h"
#include "machine_code/liveness.h"
#include "machine_code/machine_code.h"
#include "machine_code/select.h"

namespace softgpu::machine_code {
namespace {

constexpr uint32_t kFewest = 2;               // instructions that are worth a run
constexpr size_t kMostBytes = 4u << 20;       // of an image's code
constexpr size_t kMostOfProcess = 64u << 20;  // of all that is loaded

std::atomic<size_t> taken{0};

Uniform uniform_slots(const Function& function) {
    Uniform all;
    for (const auto* list : {&function.constants, &function.block_constants}) {
        for (const SlotInit& init : *list) {
            if (init.kind == SlotInit::Kind::special && differs_by_lane(Special(init.index))) continue;
            std::optional<uint64_t> value;
            if (init.kind == SlotInit::Kind::immediate) value = init.value;
            all.emplace(init.slot, value);
        }
    }
    return all;
}

// Written once, then only run. Nothing else of the process can be reached through it: a run's code has no
// addresses but those of its ops, handlers and constants, and no offsets but those of slots.
std::shared_ptr<const void> sealed(const std::vector<uint8_t>& bytes) {
    const size_t length = (bytes.size() + 4095) / 4096 * 4096;
    if (taken.fetch_add(length) + length > kMostOfProcess) return taken -= length, nullptr;
    void* const at = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return taken -= length, nullptr;
    std::shared_ptr<const void> text(at, [length](const void* gone) {
        munmap(const_cast<void*>(gone), length);
        taken -= length;
    });
    std::memcpy(at, bytes.data(), bytes.size());
    if (mprotect(at, length, PROT_READ | PROT_EXEC) != 0) return nullptr;
    return text;
}

class Compiler {
  public:
    Compiler(Image& image, Function& function, Assembler& text)
        : image_(image),
          function_(function),
          uniform_(uniform_slots(function)),
          memos_(function, steady()),
          text_(text),
          probe_(uniform_, memos_, nowhere_) {
        for (uint32_t at = function.first; at < function.end; ++at) {
            const Op& op = image.ops[at];
            if (code_of(op.fn) == "bra"_op || code_of(op.fn) == "bra.if"_op) targets_.insert(&op + op.jump);
        }
        for (const auto& table : image.tables) targets_.insert(table->begin(), table->end());
    }

    // Where code stands for which op.
    std::vector<std::pair<uint32_t, size_t>> run(Text& made) {
        std::vector<std::pair<uint32_t, uint32_t>> runs;
        std::vector<uint32_t> ends;
        for (uint32_t at = function_.first; at < function_.end;) {
            const uint32_t end = run_end(at);
            if (end - at >= kFewest) runs.emplace_back(at, end), ends.push_back(end);
            at = std::max(end, at + 1);
        }
        const Liveness liveness(image_, function_, ends);
        std::vector<std::pair<uint32_t, size_t>> entries;
        for (const auto& [at, end] : runs) {
            if (text_.at() > kMostBytes) break;
            entries.emplace_back(at, text_.at());
            make(at, end, liveness);
            ++made.runs;
            made.ops += end - at;
        }
        return entries;
    }

  private:
    // Slots that only what runs before the blocks writes: the prologue, and who fills the frame.
    std::unordered_set<uint32_t> steady() const {
        std::unordered_set<uint32_t> slots;
        if (!function_.kernel) return slots;
        for (const SlotInit& init : function_.constants) slots.insert(init.slot);
        for (uint32_t at = function_.prologue; at < function_.first; ++at) slots.insert(image_.ops[at].d);
        return slots;
    }
    // Where the run that begins here ends.
    uint32_t run_end(uint32_t at) {
        for (const uint32_t begin = at; at < function_.end; ++at) {
            const Op* op = &image_.ops[at];
            if (targets_.contains(op)) {
                located_.clear();
                if (at != begin) return at;
            }
            const bool guard = code_of(op->fn) == "guard"_op;
            const Op& does = guard ? op[1] : *op;
            const Code code = code_of(does.fn);
            if (guard && !is_guardable(code)) return at;
            if (name_of(code).starts_with("locate.")) located_[uint32_t(does.jump)] = &does;
            if (code == kNoCode || !supports(code, does, probe_, located_)) return at;
            if (guard) ++at;
        }
        return at;
    }
    void make(uint32_t at, uint32_t end, const Liveness& liveness) {
        Run run(uniform_, memos_, text_);
        run.begin(image_.ops[at].gang);
        const Op* const next = &image_.ops[end];
        for (const Op* op = &image_.ops[at]; op < next; ++op) {
            const Code code = code_of(op->fn);
            if (code == "guard"_op) {
                emit_guarded(*op, code_of(op[1].fn), op[1], run);
                ++op;
            } else {
                emit(code, *op, run, located_before(op));
            }
        }
        run.finish(next, [&](uint32_t slot) { return liveness.reads(end, slot); });
    }
    Located located_before(const Op* op) const {
        Located all;
        if (!name_of(code_of(op->fn)).ends_with(".kept")) return all;
        for (const Op* at = op; at-- > &image_.ops[function_.first];) {
            if (name_of(code_of(at->fn)).starts_with("locate.")) all.emplace(uint32_t(at->jump), at);
            if (all.contains(uint32_t(op->jump))) break;
        }
        return all;
    }

    Image& image_;
    const Function& function_;
    const Uniform uniform_;
    Memos memos_;
    Assembler& text_;
    Assembler nowhere_;
    Run probe_;
    std::unordered_set<const Op*> targets_;
    Located located_;
};

}  // namespace

Code code_of(Handler handler) {
    static const auto* const codes = [] {
        auto* all = new std::unordered_map<Handler, Code>;
        for (size_t i = 0; i < kCodes; ++i) {
            if (find_handler(Code(i)) != nullptr) all->emplace(find_handler(Code(i)), Code(i));
        }
        return all;
    }();
    const auto found = codes->find(handler);
    return found == codes->end() ? kNoCode : found->second;
}

bool possible() {
    const char* runs = instruction_set();
    return runs != nullptr && std::string_view(runs) == "x86-64-v4";
}

Text compile(Image& image) {
    Text made;
    if (!possible() || image.checked) return made;
    Assembler text;
    std::vector<std::pair<uint32_t, size_t>> entries;
    for (Function& function : image.functions) {
        if (function.first == function.end) continue;
        const auto more = Compiler(image, function, text).run(made);
        entries.insert(entries.end(), more.begin(), more.end());
    }
    if (!entries.empty()) made.code = sealed(text.bytes());
    if (made.code == nullptr) return {};
    const auto* const base = static_cast<const std::byte*>(made.code.get());
    for (const auto& [at, offset] : entries)
        image.ops[at].gang = reinterpret_cast<GangHandler>(base + offset);
    return made;
}

}  // namespace softgpu::machine_code
