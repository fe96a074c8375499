// A session of ours on the software GPU (softgpu/driver/extension.h): its text becomes notices. On a real
// driver there is nothing of it.
#pragma once

#include <functional>
#include <string_view>

#include "driver.h"

namespace worker {

class Session;

// While it lives, what the calling thread waits for takes no news that is the program's: that an interrupt
// has cost work, or that work was refused. For waits of the worker's own.
class NewsKept {
  public:
    explicit NewsKept(const Driver& driver) : extension_(driver.software) {
        if (extension_) before_ = extension_->keep_news(1);
    }
    ~NewsKept() {
        if (extension_) extension_->keep_news(before_);
    }
    NewsKept(const NewsKept&) = delete;
    NewsKept& operator=(const NewsKept&) = delete;

  private:
    const GkSoftgpuExtension* const extension_;
    int before_ = 0;
};

class SoftwareSession {
  public:
    explicit SoftwareSession(const Driver& driver) : extension_(driver.software) {}
    ~SoftwareSession() { end(); }
    SoftwareSession(const SoftwareSession&) = delete;
    SoftwareSession& operator=(const SoftwareSession&) = delete;

    // `session` gets the text from now on, until end().
    void begin(Session& session);
    void end();

    // The calling thread works for this session from now on.
    void enter() const;
    // False when kernels cannot be checked here.
    bool set_checks(uint32_t checks) const;
    // False when they cannot be interrupted here.
    bool interrupt() const;

    // The kernels of a library that cannot run while others of it can: their names, and why. None on a real
    // driver.
    using Refused = std::function<void(std::string_view name, std::string_view why)>;
    void each_refused_kernel(CUlibrary library, const Refused& visit) const;

    // Holds kernels to the first `bytes` of the mapping at `base`, once they are given access to it. On a
    // real driver they reach all of it.
    void limit_mapping(uint64_t base, uint64_t bytes) const;

  private:
    const GkSoftgpuExtension* const extension_;
    GkSession* session_ = nullptr;
};

}  // namespace worker
