// Which slots are still read after a place of a function: what a run has in registers for nobody is not
// written back.
#pragma once

#include <unordered_map>
#include <vector>

#include "exec/image.h"

namespace softgpu::machine_code {

class Liveness {
  public:
    // At these places of the function's ops, by their numbers.
    Liveness(const Image& image, const Function& function, const std::vector<uint32_t>& places);
    bool reads(uint32_t place, uint32_t slot) const;

  private:
    using Set = std::vector<bool>;  // by slot, in units of kUnit bytes
    static constexpr uint32_t kUnit = 64;

    bool pass();  // backwards; has anything changed?
    void before(uint32_t at, Set& live) const;
    void mark(Set& live, uint32_t slot, bool wide, bool value) const;

    const Image& image_;
    const Function& function_;
    std::unordered_map<uint32_t, Set> targets_, places_;
    bool known_ = false;
};

}  // namespace softgpu::machine_code
