// The parts of client and worker that need no connection.
#include <elf.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "../../../remoting/native/client/handles.h"
#include "../../../remoting/native/worker/handlers.h"
#include "../../../remoting/native/worker/options.h"
#include "blake2b.h"
#include "cases.h"
#include "image.h"
#include "launch_buffer.h"
#include "payload.h"
#include "transport.h"

namespace {

std::string hex(const wire::Digest& digest) {
    std::string text;
    for (const uint8_t byte : digest.bytes) {
        char digits[3];
        std::snprintf(digits, sizeof digits, "%02x", byte);
        text += digits;
    }
    return text;
}

std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
}

template <typename... Arguments>
bool options_parse(worker::Options& options, std::string& error, Arguments... arguments) {
    std::vector<std::string> words{"gpu-worker", arguments...};
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    return worker::parse_options(static_cast<int>(argv.size()), argv.data(), options, error);
}

}  // namespace

// The digests are hashlib.blake2b(data, digest_size=32) of Python.
CASE(digest_is_blake2b) {
    EXPECT(hex(wire::blake2b("", 0)) == "0e5751c026e543b2e8ab2eb06099daa1d1e5df47778f7787faab45cdf12fe3a8");
    EXPECT(hex(wire::blake2b("abc", 3)) ==
           "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
    const std::string block(128, 'x'), more(1000, 'y');
    EXPECT(hex(wire::blake2b(block.data(), block.size())) ==
           "164ffb7089bae6f5a62fb0795e751dc9e88eac92e1a5b2fafe93a25abf2d9c3b");
    EXPECT(hex(wire::blake2b(more.data(), more.size())) ==
           "31068c31698fb659449d56bfca789cfa63529ac640b514dee3bac0b8a3da9248");
}

CASE(reader_takes_no_more_than_there_is) {
    const std::string text("\1\0\0\0xyz", 7);
    wire::Reader reader(bytes_of(text));
    uint32_t number = 0;
    std::string_view word;
    EXPECT(reader.take(number) && number == 1);
    EXPECT(!reader.take_text(4, word));
    EXPECT(!reader.take_text(1, word));  // after a failure nothing is given
    EXPECT(!reader.finished());
}

CASE(reader_is_finished_only_at_the_end) {
    wire::Reader reader(bytes_of("ab"));
    std::string_view word;
    EXPECT(reader.take_text(1, word) && !reader.finished());
    EXPECT(reader.take_text(1, word) && reader.finished());
}

CASE(parameters_are_packed_with_zeros_between_them) {
    const std::vector<wire::ParamRow> rows{{0, 1}, {8, 4}, {16, 2}};
    constexpr size_t kBytes = 18;
    const auto pack = [&](void** params, void** extra) {
        std::string packed(kBytes, '#');
        auto* const to = reinterpret_cast<std::byte*>(packed.data());
        return cuda::pack_parameters(rows, kBytes, params, extra, to) == CUDA_SUCCESS ? packed : "refused";
    };
    std::string wanted(kBytes, '\0');
    wanted.replace(0, 1, "a").replace(8, 4, "bcde").replace(16, 2, "fg");
    char a[] = "a", b[] = "bcde", c[] = "fg";
    void* params[] = {a, b, c};
    EXPECT(pack(params, nullptr) == wanted);
    std::string buffer = "a-------bcde----fg";
    cuda::LaunchExtra extra(reinterpret_cast<const std::byte*>(buffer.data()), kBytes);
    EXPECT(pack(nullptr, extra.list()) == wanted);
    EXPECT(pack(params, extra.list()) == "refused");
    EXPECT(pack(nullptr, nullptr) == "refused");
    params[1] = nullptr;
    EXPECT(pack(params, nullptr) == "refused");
    cuda::LaunchExtra short_of_one(reinterpret_cast<const std::byte*>(buffer.data()), kBytes - 1);
    EXPECT(pack(nullptr, short_of_one.list()) == "refused");
    cuda::LaunchExtra nowhere(nullptr, kBytes);
    EXPECT(pack(nullptr, nowhere.list()) == "refused");
}

CASE(image_of_text_ends_with_its_nul) {
    const std::string ptx(".version 8.0\n\0beyond", 20);
    EXPECT(wire::image_bytes(bytes_of(ptx)) == 14u);
    EXPECT(!wire::image_bytes(bytes_of(".version")));  // no NUL in reach
    EXPECT(!wire::image_bytes(bytes_of(std::string("\1\2\3\0", 4))));
    EXPECT(!wire::image_bytes({}));
}

CASE(image_of_elf_is_bounded_by_what_is_there) {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_shoff = sizeof header;
    header.e_shnum = 1;
    header.e_shentsize = sizeof(Elf64_Shdr);
    Elf64_Shdr section{};
    section.sh_type = SHT_PROGBITS;
    section.sh_offset = sizeof header + sizeof section;
    section.sh_size = 100;
    std::string file(sizeof header + sizeof section + 100, '\0');
    std::memcpy(file.data(), &header, sizeof header);
    std::memcpy(file.data() + sizeof header, &section, sizeof section);
    EXPECT(wire::image_bytes(bytes_of(file)) == file.size());
    EXPECT(wire::image_bytes(bytes_of(file + "tail")) == file.size());
    EXPECT(!wire::image_bytes(bytes_of(file).first(file.size() - 1)));
    EXPECT(!wire::image_bytes(bytes_of(file).first(10)));
    header.e_shoff = UINT64_MAX - 8;
    std::memcpy(file.data(), &header, sizeof header);
    EXPECT(!wire::image_bytes(bytes_of(file)));
}

CASE(image_of_fatbin_is_bounded_by_what_is_there) {
    const unsigned char head[16] = {0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0, 8, 0, 0, 0, 0, 0, 0, 0};
    std::string file(reinterpret_cast<const char*>(head), sizeof head);
    EXPECT(!wire::image_bytes(bytes_of(file)));
    file += "12345678";
    EXPECT(wire::image_bytes(bytes_of(file)) == 24u);
    std::string overflowing = file, inside_out = file;
    overflowing[15] = '\x7f';
    EXPECT(!wire::image_bytes(bytes_of(overflowing)));
    inside_out[6] = 2;  // a header of two bytes
    EXPECT(!wire::image_bytes(bytes_of(inside_out)));
}

CASE(fatbin_wrapper_is_no_image) {
    // Its address would be followed in the worker.
    std::string wrapper("\xb1\x43\x62\x46 and an address", 19);
    EXPECT(!wire::image_bytes(bytes_of(wrapper + '\0')));
}

CASE(fatbin_wrapper_is_followed) {
    struct {
        uint32_t magic = 0x466243B1, version = 1;
        const void* fatbin = "there";
        const void* more = nullptr;
    } wrapper;
    EXPECT(wire::unwrap_fatbin(&wrapper) == wrapper.fatbin);
    const char* text = "plain";
    EXPECT(wire::unwrap_fatbin(text) == text);
}

CASE(pitched_sizes_saturate) {
    EXPECT(worker::pitched(512, 100, 3) == 2 * 512 + 100);
    EXPECT(worker::pitched(512, 100, 0) == 0);
    EXPECT(worker::pitched(10, 20, 2) == UINT64_MAX);
    EXPECT(worker::pitched(UINT64_MAX, 1, 3) == UINT64_MAX);
    EXPECT(worker::times(1ull << 40, 1ull << 40) == UINT64_MAX);
}

CASE(slice_limit_holds_to_the_byte) {
    worker::MemoryLedger ledger({1 << 20});
    EXPECT(ledger.reserve(0, (1 << 20) - 512));
    EXPECT(!ledger.reserve(0, 1024));
    EXPECT(ledger.reserve(0, 512));
    EXPECT(!ledger.reserve(0, 1));
    EXPECT(!ledger.reserve(0, UINT64_MAX));
    ledger.give_back(0, 1 << 20);
    EXPECT(ledger.used(0) == 0 && ledger.peak_of_all() == 1 << 20);
    EXPECT(worker::MemoryLedger::charge_of(1) == 512);
    EXPECT(worker::MemoryLedger::charge_of(UINT64_MAX) == UINT64_MAX);
}

CASE(host_memory_is_bounded_and_given_back) {
    worker::HostBudget budget(1000);
    {
        worker::HostShare share(budget);
        EXPECT(share.grow(600) && !share.grow(401) && !share.grow(UINT64_MAX) && share.grow(400));
        worker::HostShare moved(std::move(share));
        EXPECT(budget.used() == 1000);
        moved.drop();
        EXPECT(budget.used() == 0 && moved.grow(7));
    }
    EXPECT(budget.used() == 0);
}

CASE(ledger_knows_what_may_be_touched) {
    worker::MemoryLedger ledger({1 << 20});
    const auto* owner = reinterpret_cast<const worker::Session*>(1);
    const auto* other = reinterpret_cast<const worker::Session*>(2);
    ledger.add({1000, 100, 512, owner, 0});
    EXPECT(ledger.accessible(1000, 100) && ledger.accessible(1099, 1) && ledger.accessible(5, 0));
    EXPECT(!ledger.accessible(999, 1) && !ledger.accessible(1000, 101) && !ledger.accessible(1100, 1));
    EXPECT(!ledger.accessible(1050, UINT64_MAX));
    EXPECT(!ledger.take(1000, other) && !ledger.take(1001, owner));
    EXPECT(ledger.take(1000, owner) && !ledger.take(1000, owner));
}

CASE(ledger_forgets_a_library_variable_only_for_its_owner) {
    worker::MemoryLedger ledger({1 << 20});
    const auto* owner = reinterpret_cast<const worker::Session*>(1);
    ledger.add({1000, 100, 0, owner, 0});
    EXPECT(!ledger.take(1000, owner));  // it is not an allocation that could be freed
    ledger.forget_global(1000, nullptr);
    EXPECT(ledger.accessible(1000, 1));
    ledger.forget_global(1000, owner);
    EXPECT(!ledger.accessible(1000, 1));
}

CASE(order_lets_lanes_run_in_their_turn) {
    worker::Order order;
    std::vector<int> ran;
    std::vector<std::thread> lanes;
    for (int lane = 0; lane < 4; ++lane) {
        lanes.emplace_back([&, lane] {
            for (uint64_t number = 1 + static_cast<uint64_t>(lane); number <= 400; number += 4) {
                EXPECT(order.wait_for(number - 1, [] { return false; }));
                ran.push_back(static_cast<int>(number));
                order.executed(number);
            }
        });
    }
    for (auto& lane : lanes) lane.join();
    for (int i = 0; i < 400; ++i) EXPECT(ran[static_cast<size_t>(i)] == i + 1);
}

CASE(order_gives_up_when_told) {
    worker::Order order;
    EXPECT(!order.wait_for(1, [] { return true; }));
}

CASE(stale_handles_are_found_out) {
    static client::HandleTable<int> table(wire::HandleKind::event);
    const uint64_t first = table.add([](int& value, uint64_t) { value = 1; });
    EXPECT(*table.find(first) == 1);
    EXPECT(table.remove(first) && !table.find(first) && !table.remove(first));
    const uint64_t second = table.add([](int& value, uint64_t) { value = 2; });
    EXPECT(second != first && wire::handle_index(second) == wire::handle_index(first));
    EXPECT(!table.find(first) && *table.find(second) == 2);
    EXPECT(!table.find(0) && !table.find(2) && !table.find(UINT64_MAX));
    EXPECT(!table.find(wire::make_handle(wire::HandleKind::stream, 2, 0)));
    EXPECT(table.all() == std::vector<uint64_t>{second});
}

CASE(cache_makes_room_by_age) {
    worker::ImageCache cache;
    const auto half = static_cast<size_t>(worker::ImageCache::kBytes / 2);
    wire::Digest names[3] = {{{1}}, {{2}}, {{3}}};
    cache.add(names[0], std::string(half, 'a'));
    cache.add(names[1], std::string(half, 'b'));
    EXPECT(cache.find(names[0]));  // used again: now the other is the oldest
    cache.add(names[2], std::string(16, 'c'));
    EXPECT(cache.find(names[0]) && !cache.find(names[1]) && cache.find(names[2]));
}

CASE(upload_takes_pieces_in_order_only) {
    using Piece = worker::Upload::Piece;
    worker::ImageCache cache;
    worker::Upload upload(6);
    std::string image;
    EXPECT(upload.append(cache, 0, 6, bytes_of("abc"), image) == Piece::kept);
    EXPECT(upload.append(cache, 0, 6, bytes_of("abc"), image) == Piece::malformed);
    EXPECT(upload.append(cache, 3, 7, bytes_of("d"), image) == Piece::malformed);
    EXPECT(upload.append(cache, 3, 6, bytes_of("defg"), image) == Piece::malformed);
    EXPECT(upload.append(cache, 3, 6, {}, image) == Piece::malformed);
    EXPECT(upload.append(cache, 3, 6, bytes_of("def"), image) == Piece::complete && image == "abcdef");
    EXPECT(upload.append(cache, 6, 6, bytes_of("g"), image) == Piece::malformed);
}

CASE(uploads_that_do_not_finish_take_a_bounded_part_of_the_host) {
    using Piece = worker::Upload::Piece;
    worker::ImageCache cache;
    EXPECT(cache.reserve_upload(worker::ImageCache::kUploading - 4));
    std::string image;
    {
        worker::Upload small(6), large(6);
        EXPECT(small.append(cache, 0, 6, bytes_of("abc"), image) == Piece::kept);
        EXPECT(large.append(cache, 0, 6, bytes_of("abc"), image) == Piece::kept);
        EXPECT(large.append(cache, 3, 6, bytes_of("def"), image) == Piece::no_room && image.empty());
        EXPECT(cache.reserve_upload(1) && !cache.reserve_upload(1));
        cache.give_back_upload(1);
    }
    EXPECT(cache.reserve_upload(4) && !cache.reserve_upload(1));
}

CASE(a_lane_notices_a_host_that_is_gone) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT(fd >= 0);
    const auto transport = wire::stream_socket(fd);
    int on = 0;
    socklen_t size = sizeof on;
    EXPECT(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &size) == 0 && on != 0);
}

CASE(options_are_read) {
    worker::Options options;
    std::string error;
    EXPECT(options_parse(options, error, "--control-fd", "3", "--driver", "d.so", "--memory-mib", "10,20",
                         "--thousandths", "5,6", "--name", "V100", "--uuid", "GPU-a,GPU-b"));
    EXPECT(options.control_fd == 3 && options.slices.size() == 2 && options.slices[1].mib == 20);
    EXPECT(options.slices[1].thousandths == 6 && options.slices[1].uuid == "GPU-b");
}

CASE(bad_options_are_named) {
    worker::Options options;
    std::string error;
    EXPECT(!options_parse(options, error, "--control-fd", "3"));
    EXPECT(error.find("missing") != std::string::npos);
    EXPECT(!options_parse(options, error, "--colour", "red") && error.find("--colour") != std::string::npos);
    EXPECT(!options_parse(options, error, "--control-fd", "3", "--driver", "d", "--memory-mib", "-1",
                          "--thousandths", "5", "--name", "n", "--uuid", "u"));
    EXPECT(error.find("'-1'") != std::string::npos);
    EXPECT(!options_parse(options, error, "--control-fd", "3", "--driver", "d", "--memory-mib", "1,2",
                          "--thousandths", "5", "--name", "n", "--uuid", "u"));
}

CASE(socket_reports_the_end_and_a_broken_peer) {
    int pair[2];
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    auto transport = wire::stream_socket(pair[0]);
    char data[8] = "1234567";
    iovec part{data, 3};
    EXPECT(transport->send(&part, 1));
    EXPECT(read(pair[1], data, 8) == 3 && write(pair[1], "abcde", 5) == 5);
    char first[2], rest[6];
    iovec parts[2] = {{first, sizeof first}, {rest, sizeof rest}};
    EXPECT(transport->receive(parts, 2, 5) == 5 && std::memcmp(rest, "cde", 3) == 0);
    EXPECT(!transport->hung_up());
    close(pair[1]);
    EXPECT(transport->hung_up());
    iovec more{first, 2};
    EXPECT(transport->receive(&more, 1, 1) == 0);
    iovec again{data, 3};
    EXPECT(!transport->send(&again, 1));  // an error, not a signal
}

int main(int argc, char** argv) {
    if (argc == 2 && std::string(argv[1]) == "--list") {
        for (const auto& [name, run] : tests::cases()) std::puts(name.c_str());
        return 0;
    }
    if (argc != 2 || !tests::cases().contains(argv[1])) return 2;
    tests::cases()[argv[1]]();
    return 0;
}
