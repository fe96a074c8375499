// Times CUDA calls with a kernel that does nothing, through whatever libcuda.so.1 the environment names, and
// the raw socket beside it. Prints one JSON object; benchmarks/forwarding.py compares two of them.
//
//   measure_calls cuda     the calls
//   measure_calls socket   a unix stream socket between two processes: ping-pong and stream
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "cuda_abi.h"

namespace {

using Clock = std::chrono::steady_clock;

// PTX for a GPU; the comment is for the recording driver.
const char* const kImage = R"(.version 7.0
.target sm_75
.address_size 64
/*
entry empty 8 8 4
entry count_to 4
*/
.visible .entry empty(.param .u64 a, .param .u64 b, .param .u32 n)
{
    ret;
}
.visible .entry count_to(.param .u32 n)
{
    .reg .u32 %i, %n;
    .reg .pred %p;
    ld.param.u32 %n, [n];
    mov.u32 %i, 0;
again:
    add.u32 %i, %i, 1;
    setp.lt.u32 %p, %i, %n;
    @%p bra again;
    ret;
}
)";

constexpr size_t kSmall = 4096;
constexpr size_t kLarge = 64u << 20;
constexpr size_t kShared = 16u << 20;
constexpr size_t kRefilled = 64u << 10;

double seconds(const std::function<void()>& work) {
    const auto start = Clock::now();
    work();
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// The median of `times` runs.
double median(int times, const std::function<double()>& run) {
    std::vector<double> samples;
    for (int i = 0; i < times; ++i) samples.push_back(run());
    std::nth_element(samples.begin(), samples.begin() + times / 2, samples.end());
    return samples[static_cast<size_t>(times / 2)];
}

[[noreturn]] void die(const char* call, int status) {
    std::fprintf(stderr, "%s: %d\n", call, status);
    std::exit(1);
}

void* g_library;

template <typename Function>
Function find(const char* name) {
    void* symbol = dlsym(g_library, name);
    if (!symbol) die(name, -1);
    return reinterpret_cast<Function>(symbol);
}

#define FIND(name) const auto name = find<decltype(&::name)>(#name)
#define CHECK(name, ...)                                              \
    do {                                                              \
        if (const int status = name(__VA_ARGS__)) die(#name, status); \
    } while (false)

void print(const char* name, double value) {
    std::printf("\"%s\": %.6g", name, value);
}

// Copies to pinned memory that nobody waits for, beside a kernel that works in one thread.
void measure_copies_beside_kernels(CUlibrary library, CUdeviceptr memory) {
    FIND(cuLibraryGetKernel);
    FIND(cuLaunchKernel);
    FIND(cuMemHostAlloc);
    FIND(cuMemcpyDtoHAsync_v2);
    FIND(cuStreamCreate);
    FIND(cuCtxSynchronize);
    FIND(cuStreamSynchronize);
    constexpr size_t kChunk = 8u << 20, kChunks = 6;
    CUkernel kernel;
    CHECK(cuLibraryGetKernel, &kernel, library, "count_to");
    void* pinned;
    CHECK(cuMemHostAlloc, &pinned, kChunk * kChunks, 0);
    CUstream streams[2];
    for (CUstream& stream : streams) CHECK(cuStreamCreate, &stream, CU_STREAM_NON_BLOCKING);
    auto count_to = [&](unsigned n, CUstream stream) {
        void* params[] = {&n};
        CHECK(cuLaunchKernel, reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 1, 1, 1, 0, stream, params,
              nullptr);
    };
    auto copy = [&](size_t chunk, size_t bytes, CUstream stream) {
        CHECK(cuMemcpyDtoHAsync_v2, static_cast<char*>(pinned) + chunk * kChunk, memory, bytes, stream);
    };
    copy(0, kSmall, streams[0]);
    CHECK(cuCtxSynchronize);
    // A kernel that takes as long as a chunk.
    const double of_copy = median(5, [&] {
        return seconds([&] {
            copy(0, kChunk, streams[0]);
            CHECK(cuStreamSynchronize, streams[0]);
        });
    });
    constexpr unsigned kCount = 100'000;
    const double of_count = median(5, [&] {
        return seconds([&] {
            count_to(kCount, streams[0]);
            CHECK(cuStreamSynchronize, streams[0]);
        });
    });
    const auto n = static_cast<unsigned>(kCount * of_copy / of_count);
    std::printf(", ");
    print("copy_behind_kernel_us", median(21, [&] {
              count_to(kCount, streams[0]);
              const double time = 1e6 * seconds([&] { copy(0, kSmall, streams[0]); });
              CHECK(cuCtxSynchronize);
              return time;
          }));
    std::printf(", ");
    print("copy_back_async_4k_us", median(201, [&] {
              return 1e6 * seconds([&] {
                         copy(0, kSmall, streams[0]);
                         CHECK(cuStreamSynchronize, streams[0]);
                     });
          }));
    auto pipeline = [&](size_t count) {
        return seconds([&] {
            for (size_t i = 0; i < kChunks; ++i) {
                count_to(n, streams[i % count]);
                copy(i, kChunk, streams[i % count]);
            }
            CHECK(cuCtxSynchronize);
        });
    };
    // In turns: the machine may be busy.
    std::printf(", ");
    print("two_streams_ratio", median(9, [&] { return pipeline(1) / pipeline(2); }));
}

void measure_cuda() {
    g_library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!g_library) die(dlerror(), -1);
    FIND(cuInit);
    FIND(cuDevicePrimaryCtxRetain);
    FIND(cuCtxSetCurrent);
    FIND(cuCtxSynchronize);
    FIND(cuLibraryLoadData);
    FIND(cuLibraryGetKernel);
    FIND(cuLaunchKernel);
    FIND(cuMemAlloc_v2);
    FIND(cuMemFree_v2);
    FIND(cuMemAllocAsync);
    FIND(cuMemFreeAsync);
    FIND(cuMemcpyHtoD_v2);
    FIND(cuMemcpyDtoH_v2);
    FIND(cuMemHostAlloc);
    FIND(cuMemHostGetDevicePointer_v2);
    FIND(cuStreamSynchronize);
    FIND(cuEventCreate);
    FIND(cuEventRecord);
    FIND(cuEventQuery);
    CUcontext context;
    CHECK(cuInit, 0);
    CHECK(cuDevicePrimaryCtxRetain, &context, 0);
    CHECK(cuCtxSetCurrent, context);
    CUlibrary library;
    CUkernel kernel;
    CHECK(cuLibraryLoadData, &library, kImage, nullptr, nullptr, 0, nullptr, nullptr, 0);
    CHECK(cuLibraryGetKernel, &kernel, library, "empty");
    CUdeviceptr memory;
    CHECK(cuMemAlloc_v2, &memory, kLarge);
    std::vector<char> host(kLarge, 1);
    CUevent event;
    CHECK(cuEventCreate, &event, 0);

    CUdeviceptr a = memory, b = memory;
    int n = 7;
    void* params[] = {&a, &b, &n};
    auto launch = [&] {
        CHECK(cuLaunchKernel, reinterpret_cast<CUfunction>(kernel), 1, 1, 1, 32, 1, 1, 0, nullptr, params,
              nullptr);
    };
    auto each = [&](int count, const std::function<void()>& work) {
        work();
        return 1e6 * seconds([&] {
                   for (int i = 0; i < count; ++i) work();
               }) /
               count;
    };
    // What a program pays to send a launch on its way, and what it pays until all have been executed.
    constexpr int kLaunches = 1000;
    double until_done = 0;
    const double posted = median(21, [&] {
        double sent = 0;
        until_done = 1e6 / kLaunches * seconds([&] {
                         sent = 1e6 / kLaunches * seconds([&] {
                                    for (int i = 0; i < kLaunches; ++i) launch();
                                });
                         CHECK(cuCtxSynchronize);
                     });
        return sent;
    });
    std::printf("{");
    print("launch_us", posted);
    std::printf(", ");
    print("launch_executed_us", until_done);
    std::printf(", ");
    // A launch now and then, as interactive programs have them.
    print("single_launch_us", median(201, [&] {
              usleep(300);
              const double time = 1e6 * seconds(launch);
              CHECK(cuCtxSynchronize);
              return time;
          }));
    std::printf(", ");
    print("synchronize_us", median(21, [&] { return each(200, [&] { CHECK(cuCtxSynchronize); }); }));
    std::printf(", ");
    print("launch_and_synchronize_us", median(21, [&] {
              return each(200, [&] {
                  launch();
                  CHECK(cuCtxSynchronize);
              });
          }));
    std::printf(", ");
    print("copy_back_4k_us", median(21, [&] {
              return each(200, [&] { CHECK(cuMemcpyDtoH_v2, host.data(), memory, kSmall); });
          }));
    std::printf(", ");
    print("copy_in_4k_us", median(21, [&] {
              return each(200, [&] { CHECK(cuMemcpyHtoD_v2, memory, host.data(), kSmall); });
          }));
    CHECK(cuCtxSynchronize);
    std::printf(", ");
    print("record_and_query_us", median(21, [&] {
              return each(200, [&] {
                  CHECK(cuEventRecord, event, nullptr);
                  cuEventQuery(event);
              });
          }));
    std::printf(", ");
    CUdeviceptr taken;
    print("allocate_and_free_us", median(21, [&] {
              return each(200, [&] {
                  CHECK(cuMemAlloc_v2, &taken, kSmall);
                  CHECK(cuMemFree_v2, taken);
              });
          }));
    std::printf(", ");
    print("allocate_and_free_in_stream_us", median(21, [&] {
              return each(200, [&] {
                  CHECK(cuMemAllocAsync, &taken, kSmall, nullptr);
                  CHECK(cuMemFreeAsync, taken, nullptr);
                  CHECK(cuCtxSynchronize);
              });
          }));
    std::printf(", ");
    print("host_to_device_gbs", kLarge / 1e9 / median(9, [&] {
                                    return seconds([&] {
                                        CHECK(cuMemcpyHtoD_v2, memory, host.data(), kLarge);
                                        CHECK(cuCtxSynchronize);
                                    });
                                }));
    std::printf(", ");
    print("device_to_host_gbs",
          kLarge / 1e9 / median(9, [&] {
              return seconds([&] { CHECK(cuMemcpyDtoH_v2, host.data(), memory, kLarge); });
          }));
    measure_copies_beside_kernels(library, memory);
    // Pinned memory that kernels use: a launch takes it there, a wait for all brings it back. And a part that
    // the program fills with numbers after a wait for a stream.
    void* shared;
    CUdeviceptr there;
    CHECK(cuMemHostAlloc, &shared, kShared, CU_MEMHOSTALLOC_DEVICEMAP);
    CHECK(cuMemHostGetDevicePointer_v2, &there, shared, 0);
    auto* const numbers = static_cast<float*>(shared);
    auto fill = [&](size_t count, int turn) {
        for (size_t i = 0; i < count; ++i) numbers[i] = static_cast<float>(i + 1) * static_cast<float>(turn);
    };
    std::vector<double> back, refilled;
    int turn = 0;
    const double sent = median(9, [&] {
        fill(kShared / sizeof *numbers, ++turn);
        const double time = seconds(launch);
        CHECK(cuStreamSynchronize, nullptr);
        fill(kRefilled / sizeof *numbers, ++turn);
        refilled.push_back(seconds(launch));
        back.push_back(seconds([&] { CHECK(cuCtxSynchronize); }));
        return time;
    });
    auto middle = [&](std::vector<double>& times) {
        std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
        return times[times.size() / 2];
    };
    std::printf(", ");
    print("shared_to_device_gbs", kShared / 1e9 / sent);
    std::printf(", ");
    print("shared_back_gbs", kShared / 1e9 / middle(back));
    std::printf(", ");
    print("refilled_ms", 1e3 * middle(refilled));
    std::printf("}\n");
}

void receive_all(int fd, char* to, size_t bytes) {
    while (bytes > 0) {
        const ssize_t got = read(fd, to, bytes);
        if (got <= 0) std::exit(1);
        to += got;
        bytes -= static_cast<size_t>(got);
    }
}

void send_all(int fd, const char* from, size_t bytes) {
    while (bytes > 0) {
        const ssize_t sent = write(fd, from, bytes);
        if (sent <= 0) std::exit(1);
        from += sent;
        bytes -= static_cast<size_t>(sent);
    }
}

// The peer answers every 16 bytes with 8, like a call; then takes the stream and answers once.
void socket_peer(int fd, int pings, size_t stream, int streams) {
    std::vector<char> buffer(256 * 1024);
    for (int i = 0; i < pings; ++i) {
        receive_all(fd, buffer.data(), 16);
        send_all(fd, buffer.data(), 8);
    }
    for (int i = 0; i < streams; ++i) {
        for (size_t left = stream; left > 0;) {
            const size_t part = std::min(left, buffer.size());
            receive_all(fd, buffer.data(), part);
            left -= part;
        }
        send_all(fd, buffer.data(), 8);
    }
    std::exit(0);
}

void measure_socket() {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) die("socketpair", errno);
    constexpr int kRounds = 21, kPings = 200, kStreams = 9;
    for (const int fd : pair) {
        const int bytes = 4 << 20;
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    }
    const pid_t peer = fork();
    if (peer == 0) socket_peer(pair[1], kRounds * kPings, kLarge, kStreams);
    std::vector<char> data(kLarge, 1);
    const double ping = median(kRounds, [&] {
        return 1e6 / kPings * seconds([&] {
                   for (int i = 0; i < kPings; ++i) {
                       send_all(pair[0], data.data(), 16);
                       receive_all(pair[0], data.data(), 8);
                   }
               });
    });
    const double stream = median(kStreams, [&] {
        return seconds([&] {
            send_all(pair[0], data.data(), data.size());
            receive_all(pair[0], data.data(), 8);
        });
    });
    std::printf("{");
    print("ping_pong_us", ping);
    std::printf(", ");
    print("stream_gbs", kLarge / 1e9 / stream);
    std::printf("}\n");
    waitpid(peer, nullptr, 0);
}

}  // namespace

int main(int argc, char** argv) {
    const std::string what = argc > 1 ? argv[1] : "";
    if (what == "cuda") {
        measure_cuda();
    } else if (what == "socket") {
        measure_socket();
    } else {
        std::fprintf(stderr, "usage: measure_calls cuda|socket\n");
        return 2;
    }
    return 0;
}
