// Device code as nvcc's output carries and registers it, made by hand: fat binaries around PTX.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "expect.h"

// `add(p, n, value)` adds to n integers; `read_table(p)` stores the four words of the variable `table`.
inline std::string device_code(const char* add = "add") {
    std::string text =
        ".version 7.0\n.target sm_70\n.address_size 64\n"
        ".visible .global .align 4 .b32 table[4] = {1, 2, 3, 4};\n"
        ".visible .entry NAME(.param .u64 p, .param .u32 n, .param .u32 value)\n{\n"
        ".reg .pred %q; .reg .u32 %r<8>; .reg .u64 %d<4>;\n"
        "ld.param.u64 %d1, [p]; ld.param.u32 %r1, [n]; ld.param.u32 %r2, [value];\n"
        "mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x; mad.lo.u32 %r3, %r3, %r4, %r5;\n"
        "setp.ge.u32 %q, %r3, %r1; @%q ret;\n"
        "mul.wide.u32 %d2, %r3, 4; add.u64 %d1, %d1, %d2;\n"
        "ld.global.u32 %r6, [%d1]; add.u32 %r6, %r6, %r2; st.global.u32 [%d1], %r6; ret;\n}\n"
        ".visible .entry read_table(.param .u64 p)\n{\n"
        ".reg .u32 %r<3>; .reg .u64 %d<5>;\n"
        "ld.param.u64 %d1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; mov.u64 %d3, table;\n"
        "add.u64 %d3, %d3, %d2; add.u64 %d1, %d1, %d2; ld.global.u32 %r2, [%d3]; st.global.u32 [%d1], %r2; "
        "ret;\n}\n";
    return text.replace(text.find("NAME"), 4, add);
}

struct Entry {
    std::string payload;
    uint16_t kind = 1;  // 1: PTX, 2: machine code
    uint32_t arch = 70;
    uint64_t flags = 0;
    uint64_t plain_bytes = 0;
};

// A zstd frame of one stored block; the block's size has 21 bits.
inline Entry packed_with_zstd(const std::string& text) {
    std::string frame("\x28\xb5\x2f\xfd\xa0", 5);
    const uint32_t size = text.size(), block = size << 3 | 1;
    frame.append(reinterpret_cast<const char*>(&size), 4).append(reinterpret_cast<const char*>(&block), 3);
    return {.payload = frame + text, .flags = 0x8000, .plain_bytes = text.size()};
}

inline std::vector<uint64_t> fatbin(const std::vector<Entry>& entries) {
    std::string body;
    const auto put = [](std::string& to, size_t at, auto value) {
        std::memcpy(&to[at], &value, sizeof value);
    };
    for (const Entry& entry : entries) {
        std::string header(64, '\0'), payload = entry.payload;
        payload.resize((payload.size() + 7) / 8 * 8 + 8);
        put(header, 0, entry.kind);
        put(header, 2, uint16_t{0x101});
        put(header, 4, uint32_t{64});
        put(header, 8, uint64_t{payload.size()});
        put(header, 16, uint32_t(entry.flags ? entry.payload.size() : 0));
        put(header, 28, entry.arch);
        put(header, 40, entry.flags);
        put(header, 56, entry.plain_bytes);
        body += header + payload;
    }
    std::string all(16, '\0');
    put(all, 0, 0xBA55ED50u);
    put(all, 4, uint16_t{1});
    put(all, 6, uint16_t{16});
    put(all, 8, uint64_t{body.size()});
    all += body;
    std::vector<uint64_t> words(all.size() / 8);
    std::memcpy(words.data(), all.data(), all.size());
    return words;
}

// What the constructors and exit handlers of nvcc's output do for one object. Kernels and variables stand for
// themselves by the addresses of `add`, `read_table` and `table`.
struct Object {
    struct {
        int magic = 0x466243b1, version = 1;
        const void* data;
        const void* const* linked = nullptr;
    } wrapper;
    std::vector<uint64_t> image;
    char add, read_table, missing, table[16];
    void** handle;

    explicit Object(const std::vector<Entry>& entries, const char* add_name = "add")
        : image(fatbin(entries)) {
        wrapper.data = image.data();
        enroll(add_name);
    }

    void enroll(const char* add_name) {
        handle = __cudaRegisterFatBinary(&wrapper);
        const auto function = [&](char* host, const char* name) {
            __cudaRegisterFunction(handle, host, host, name, -1, nullptr, nullptr, nullptr, nullptr, nullptr);
        };
        function(&add, add_name);
        function(&read_table, "read_table");
        function(&missing, "not_in_the_image");
        __cudaRegisterVar(handle, table, table, "table", 0, sizeof table, 0, 0);
        __cudaRegisterFatBinaryEnd(handle);
    }

    ~Object() { __cudaUnregisterFatBinary(handle); }
    Object(const Object&) = delete;

    cudaError_t launch_add(int* p, int n, int value, dim3 block = 64, cudaStream_t stream = nullptr) {
        void* arguments[] = {&p, &n, &value};
        return cudaLaunchKernel(&add, (n + 63) / 64, block, arguments, 0, stream);
    }
};

// n integers on the device, and back.
struct Numbers {
    int* device = nullptr;
    std::vector<int> host;

    explicit Numbers(int n, int value = 0) : host(n, value) {
        EXPECT_OK(cudaMalloc(reinterpret_cast<void**>(&device), bytes()));
        EXPECT_OK(cudaMemcpy(device, host.data(), bytes(), cudaMemcpyHostToDevice));
    }
    ~Numbers() { cudaFree(device); }
    size_t bytes() const { return host.size() * sizeof(int); }
    const std::vector<int>& read() {
        EXPECT_OK(cudaMemcpy(host.data(), device, bytes(), cudaMemcpyDeviceToHost));
        return host;
    }
};
