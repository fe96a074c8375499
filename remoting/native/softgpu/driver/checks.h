// GPU_KERNELS_SOFTGPU_CHECK: which checks a student asks for. Read by the software GPU where a program runs
// straight on it, and by the forwarding client, which tells the worker.
#pragma once

#include <string_view>

#include "extension.h"

inline constexpr char kGkCheckVariable[] = "GPU_KERNELS_SOFTGPU_CHECK";

inline constexpr char kGkCheckNames[] =
    "not all of it is understood: races, init, divergence and all can be asked for, with commas between them";

// "races,init": names with commas between them. False for a name that is none; `checks` has the others.
inline bool parse_checks(std::string_view text, uint32_t& checks) {
    constexpr struct {
        std::string_view name;
        uint32_t check;
    } kNames[] = {{"races", kGkCheckRaces},
                  {"init", kGkCheckInit},
                  {"divergence", kGkCheckDivergence},
                  {"all", kGkCheckAll}};
    bool known = true;
    checks = 0;
    while (!text.empty()) {
        const size_t end = text.find(',');
        std::string_view name = text.substr(0, end);
        text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
        while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
        while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
        bool found = name.empty();
        for (const auto& entry : kNames) {
            if (name != entry.name) continue;
            checks |= entry.check;
            found = true;
        }
        known = known && found;
    }
    return known;
}
