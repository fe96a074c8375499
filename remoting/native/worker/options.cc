#include "options.h"

#include <charconv>
#include <map>
#include <string_view>
#include <utility>

#include "protocol.h"

namespace worker {
namespace {

template <typename Number>
bool parse_number(std::string_view text, Number& value) {
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    return status == std::errc() && end == text.data() + text.size();
}

std::vector<std::string_view> split(std::string_view text, char at = ',') {
    std::vector<std::string_view> parts;
    for (;;) {
        const size_t comma = text.find(at);
        parts.push_back(text.substr(0, comma));
        if (comma == std::string_view::npos) return parts;
        text.remove_prefix(comma + 1);
    }
}

bool parse_seccomp(std::string_view text, Seccomp& seccomp) {
    if (text != "required" && text != "optional" && text != "off") return false;
    seccomp = text == "required"   ? Seccomp::kRequired
              : text == "optional" ? Seccomp::kOptional
                                   : Seccomp::kOff;
    return true;
}

constexpr uint64_t kMostMib = 1u << 22;  // 4 TiB: no GPU has more, and in bytes it cannot overflow

constexpr uint64_t kLatestMs = 1ull << 52;  // as a time it cannot overflow

bool parse_slices(std::string_view mib, std::string_view thousandths, std::string_view uuids,
                  Options& options, std::string& error) {
    const auto sizes = split(mib), shares = split(thousandths), names = split(uuids);
    if (sizes.size() != shares.size() || sizes.size() != names.size() || sizes.size() > wire::kMaxDevices) {
        error = "--memory-mib, --thousandths and --uuid must have one entry for each of at most 16 GPUs";
        return false;
    }
    for (size_t i = 0; i < sizes.size(); ++i) {
        Slice slice;
        slice.uuid = names[i];
        if (!parse_number(sizes[i], slice.mib) || slice.mib == 0 || slice.mib > kMostMib) {
            error = "--memory-mib: '" + std::string(sizes[i]) + "' is not a number of MiB from 1 to 4194304";
            return false;
        }
        if (!parse_number(shares[i], slice.thousandths) || slice.thousandths == 0 ||
            slice.thousandths > 1000) {
            error = "--thousandths: '" + std::string(shares[i]) + "' is not a number from 1 to 1000";
            return false;
        }
        options.slices.push_back(slice);
    }
    return true;
}

// One number for all GPUs, or one for each.
bool parse_contexts(std::string_view text, Options& options, std::string& error) {
    const auto sizes = split(text);
    bool right = sizes.size() == 1 || sizes.size() == options.slices.size();
    for (size_t i = 0; right && i < options.slices.size(); ++i) {
        Slice& slice = options.slices[i];
        right = parse_number(sizes[sizes.size() == 1 ? 0 : i], slice.context_mib) &&
                slice.context_mib < slice.mib;
    }
    if (!right) {
        error = "--context-mib: '" + std::string(text) +
                "' must be what a context takes of each GPU, in MiB, and less than the slice there";
    }
    return right;
}

}  // namespace

bool parse_options(int argc, char** argv, Options& options, std::string& error) {
    std::map<std::string_view, std::string_view> given = {
        {"--control-fd", ""},  {"--driver", ""},          {"--memory-mib", ""},
        {"--thousandths", ""}, {"--context-mib", "0"},    {"--name", ""},
        {"--uuid", ""},        {"--live-until", "0"},     {"--host-memory-mib", "4096"},
        {"--mark-fd", "-1"},   {"--seccomp", "required"}, {"--slice-file-fd", "-1"},
        {"--libraries", ":"}};
    for (int i = 1; i < argc; i += 2) {
        auto known = given.find(argv[i]);
        if (known == given.end() || i + 1 == argc) {
            error = std::string(argv[i]) + " is not an option, or has no value";
            return false;
        }
        known->second = argv[i + 1];
    }
    for (const auto& [name, value] : given) {
        if (!value.empty()) continue;
        error = std::string(name) + " is missing";
        return false;
    }
    if (!parse_number(given["--control-fd"], options.control_fd) || options.control_fd < 0) {
        error = "--control-fd: '" + std::string(given["--control-fd"]) + "' is not a file descriptor";
        return false;
    }
    if (!parse_number(given["--live-until"], options.live_until_ms) || options.live_until_ms > kLatestMs) {
        error = "--live-until: '" + std::string(given["--live-until"]) + "' is not a time in milliseconds";
        return false;
    }
    if (!parse_number(given["--host-memory-mib"], options.host_memory_mib) || options.host_memory_mib == 0 ||
        options.host_memory_mib > kMostMib) {
        error = "--host-memory-mib: '" + std::string(given["--host-memory-mib"]) +
                "' is not a number of MiB from 1 to 4194304";
        return false;
    }
    const std::pair<const char*, int*> inherited[] = {{"--mark-fd", &options.mark_fd},
                                                      {"--slice-file-fd", &options.file_fd}};
    for (const auto& [name, descriptor] : inherited) {
        if (parse_number(given[name], *descriptor) && *descriptor >= -1) continue;
        error = std::string(name) + ": '" + std::string(given[name]) + "' is not a file descriptor";
        return false;
    }
    if (!parse_seccomp(given["--seccomp"], options.seccomp)) {
        error = "--seccomp: '" + std::string(given["--seccomp"]) + "' is not required, optional or off";
        return false;
    }
    options.driver = given["--driver"];
    options.name = given["--name"];
    for (const std::string_view folder : split(given["--libraries"], ':')) {
        if (!folder.empty()) options.libraries.emplace_back(folder);
    }
    return parse_slices(given["--memory-mib"], given["--thousandths"], given["--uuid"], options, error) &&
           parse_contexts(given["--context-mib"], options, error);
}

}  // namespace worker
