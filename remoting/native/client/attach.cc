#include "attach.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "attach_point.h"
#include "interrupt.h"
#include "log.h"

namespace client {
namespace {

constexpr int kBar = 20;
constexpr const char* kKept =
    "you interrupted the wait for your GPU; your place in the line is kept. The next CUDA call, or %gpu "
    "wait, "
    "waits on.";

std::string duration(double seconds) {
    const long minutes = std::lround(std::clamp(seconds, 0.0, 1e8) / 60);
    if (seconds < 90) return std::to_string(std::max(1L, std::lround(seconds))) + " s";
    return minutes < 120 ? std::to_string(minutes) + " min" : std::to_string(minutes / 60) + " h";
}

// `[#####---------------]`: how much of the whole wait is over, by what is known now.
std::string bar(const wire::Waits& waits) {
    if (waits.starts_in < 0) return {};
    const double whole = waits.since + waits.starts_in;
    const int done = whole > 0 ? static_cast<int>(kBar * std::min(1.0, waits.since / whole)) : kBar;
    return " [" + std::string(done, '#') + std::string(kBar - done, '-') + "]";
}

// One line of standard output, written again and again over itself; into a file it goes once. Nothing is
// shown where the slice is there at once.
class Progress {
  public:
    void show(const wire::Waits& waits) {
        std::string line = "waiting for a GPU (" + waits.size + ")";
        if (waits.position > 0) line += ": number " + std::to_string(waits.position) + " in the line";
        if (waits.starts_in >= 0) line += ", about " + duration(waits.starts_in);
        line += bar(waits);
        // Why, once, above the line that moves: to wait is no error, so it goes where the line goes.
        if (!shown_ && !waits.text.empty()) put(waits.text + "\n");
        if (!shown_ || !is_file()) draw(line);
        shown_ = true;
        since_ = waits.since;
    }

    void over(const std::string& how) {
        if (!shown_) return;
        draw(how + " after " + duration(since_));
        if (!is_file()) put("\n");
    }

  private:
    static bool is_file() {
        struct stat found{};
        return fstat(STDOUT_FILENO, &found) == 0 && S_ISREG(found.st_mode);
    }

    void draw(const std::string& line) {
        // Spaces wipe out what a longer line left.
        const size_t left = width_ > line.size() ? width_ - line.size() : 0;
        put((is_file() ? "" : "\r") + line + std::string(left, ' ') + (is_file() ? "\n" : ""));
        width_ = line.size();
    }

    static void put(const std::string& text) {
        [[maybe_unused]] const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    }

    bool shown_ = false;
    double since_ = 0;
    size_t width_ = 0;
};

}  // namespace

Got get_slice(wire::Credentials& credentials, std::string& text) {
    Progress progress;
    InterruptNote interrupt;
    wire::AttachAnswer answer = wire::ask_attach_point("wait", [&](const wire::Waits* waits) {
        if (waits) progress.show(*waits);
        return !interrupt.seen();
    });
    switch (answer.attached) {
        case wire::Attached::yes:
            progress.over("your GPU (" + answer.size + ") is there,");
            credentials = answer.credentials;
            return Got::slice;
        case wire::Attached::no:
            progress.over("no GPU,");
            text = answer.text.empty() ? "this kernel has no GPU; %gpu says why." : answer.text;
            return Got::refusal;
        case wire::Attached::interrupted:
            progress.over("interrupted");
            text = kKept;
            return Got::interrupt;
        case wire::Attached::nobody:
            break;
    }
    log_line(answer.text);
    if (wire::credentials_from_environment(credentials, text)) return Got::slice;
    if (wire::has_attach_point())
        text = "the Jupyter server that asks for this kernel's GPU does not answer (" + answer.text +
               "). Restart the kernel to get a GPU.";
    return Got::refusal;
}

}  // namespace client
