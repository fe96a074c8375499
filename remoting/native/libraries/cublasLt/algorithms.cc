#include "algorithms.h"

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "driver.h"
#include "roles.h"

using namespace cublas;

namespace cublasLt {
namespace {

constexpr char kName[] = "cublasLtMatmulAlgoGetHeuristic";
// What the call has whose program brings no workspace.
constexpr uint64_t kOwnWorkspace = 4 << 20;

struct Question {
    GkAsk ask;
    GkLibraryCall head;
    maths::cublasLt::matmul message;
};

struct Answer {
    CUresult result = CUDA_SUCCESS;
    uint64_t workspace = 0;
};

// What was answered in the present life. Programs ask the same before each product, and each time would wait
// for the work that they have posted.
class Answers {
  public:
    std::optional<Answer> find(const std::string& key) {
        const std::lock_guard lock(mutex_);
        begin_life();
        const auto known = all_.find(key);
        return known == all_.end() ? std::nullopt : std::optional(known->second);
    }
    void keep(const std::string& key, const Answer& answer) {
        constexpr size_t kMost = 1024;
        const std::lock_guard lock(mutex_);
        begin_life();
        if (all_.size() >= kMost) all_.clear();
        all_[key] = answer;
    }

  private:
    void begin_life() {
        const unsigned long long life = libraries::driver()->present_life();
        if (life_ != life) all_.clear();
        life_ = life;
    }

    std::mutex mutex_;
    std::map<std::string, Answer> all_;
    unsigned long long life_ = 0;
};

Answers& answers() {
    static auto* const all = new Answers;  // never destroyed: exit handlers may call
    return *all;
}

// All that an algorithm may ask of an address.
uint64_t alignment_of(uint64_t address) {
    constexpr uint64_t kMost = 256;
    const uint64_t of = address | kMost;
    return address == 0 ? 0 : of & (0 - of);
}

Answer ask(Question& question) {
    const std::string key(reinterpret_cast<const char*>(&question.head),
                          sizeof question - offsetof(Question, head));
    if (const auto known = answers().find(key)) return *known;
    Answer answer;
    question.ask.workspace_bytes = &answer.workspace;
    answer.result =
        static_cast<CUresult>(libraries::driver()->library_call(nullptr, &question, sizeof question));
    // What else it says is of this moment.
    if (answer.result == CUDA_SUCCESS || answer.result == CUDA_ERROR_NOT_FOUND) answers().keep(key, answer);
    return answer;
}

}  // namespace

Status find_algorithm(maths::cublasLt::matmul message, bool scalars_on_device, uint64_t most_workspace,
                      uint64_t& workspace) {
    workspace = 0;
    const libraries::Driver* const driver = libraries::driver();
    if (!driver) return kNotInitialized;
    if (!driver->library_call) return static_cast<Status>(library_unsupported(kName));
    // A software GPU does whatever fits, and works in memory of its own.
    if (libraries::end_of(kGkCublasLt, CUBLAS_MAJOR).threads > 0) return kSuccess;
    for (uint64_t* const address : {&message.bias, &message.gradient, &message.auxiliary, &message.kept})
        *address = alignment_of(*address);
    Question question{.ask = {}, .head = {}, .message = message};
    question.ask.head.library = question.head.library = kGkCublasLt;
    question.ask.head.major = question.head.major = CUBLAS_MAJOR;
    question.ask.head.function = kGkAsk, question.head.function = maths::cublasLt::k_cublasLtMatmul;
    question.head.wide = 1, question.head.scalars_on_device = scalars_on_device;
    question.head.workspace_bytes = most_workspace == 0 ? kOwnWorkspace : most_workspace;
    const Answer answer = ask(question);
    if (answer.result == CUDA_ERROR_NOT_SUPPORTED) return static_cast<Status>(library_unsupported(kName));
    if (answer.result == CUDA_ERROR_NOT_FOUND) {
        return static_cast<Status>(library_refuses(
            kName,
            "NVIDIA's library has no algorithm for this product on this GPU: allow it a larger workspace, or "
            "leave its epilogue to a call of its own"));
    }
    if (most_workspace != 0) workspace = answer.workspace;
    return meaning(answer.result);
}

}  // namespace cublasLt
