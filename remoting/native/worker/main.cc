// gpu-worker: serves the CUDA calls of one lease. Started by the agent, which hands over connections on the
// control descriptor; ends with it.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <thread>

#include "descriptor.h"
#include "fence.h"
#include "hello.h"
#include "lane.h"
#include "measure.h"
#include "nvidia_libraries.h"
#include "options.h"
#include "seccomp.h"
#include "worker.h"

namespace worker {
namespace {

std::string session_of(const wire::Hello& hello) {
    return {reinterpret_cast<const char*>(hello.session.data()), hello.session.size()};
}

// Where the system makes huge pages by itself, a stack's first page would take 2 MiB.
void keep_stack_small() {
    pthread_attr_t attributes;
    void* stack = nullptr;
    size_t bytes = 0;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
    if (pthread_attr_getstack(&attributes, &stack, &bytes) == 0) madvise(stack, bytes, MADV_NOHUGEPAGE);
    pthread_attr_destroy(&attributes);
}

// One lane's thread, from the Hello to the end.
void serve(Worker& worker, int fd, const wire::Hello& hello) {
    const std::string id = session_of(hello);
    auto transport = wire::stream_socket(fd);
    wire::Transport* connection = transport.get();
    auto session = worker.enter(id);
    if (!session) {
        Session none(worker, "none");
        Lane(worker, none, std::move(transport)).refuse("too many processes use this slice at the same time");
        return;
    }
    Lane lane(worker, *session, std::move(transport));
    if (!session->add_lane(hello.lane, connection)) {
        lane.refuse("this process's session has ended");
        return;
    }
    session->software.enter();
    if (lane.welcome()) lane.run();
    session->own_work.thread_ends();
    worker.ending_frees.thread_ends();
    if (worker.driver.software) worker.driver.software->enter_session(nullptr);
    if (!session->remove_lane(hello.lane)) return;
    worker.leave(id, session);
    session->close_passage();
}

constexpr char kLive[] = {'G', 'P', 'U', 'K', 'L', 'I', 'V', 'E'};

// Whether the packet was the agent's word on how long this process may live; it is taken then.
bool take_time(Fence& fence, const uint8_t* bytes, ssize_t size) {
    uint64_t until_ms;
    if (size != sizeof kLive + sizeof until_ms || std::memcmp(bytes, kLive, sizeof kLive) != 0) return false;
    std::memcpy(&until_ms, bytes + sizeof kLive, sizeof until_ms);
    if (!fence.live_until(until_ms)) _exit(1);
    return true;
}

// A connection from the agent: -1 when the packet is none.
int take_connection(int control_fd, Fence& fence, wire::Hello& hello, bool& closed) {
    std::array<uint8_t, wire::hello_bytes> bytes{};
    wire::Descriptor connection;
    const ssize_t got = wire::receive_with_descriptor(control_fd, bytes, 0, connection);
    closed = got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN);
    if (got <= 0 || take_time(fence, bytes.data(), got)) return -1;
    if (got != wire::hello_bytes || !wire::decode_hello(bytes, hello)) return -1;
    return connection.release();
}

// In words, for the person: a thread more that uses CUDA is a connection more.
void refuse(int fd, const std::string& session, size_t most) {
    const std::string text =
        "this slice's programs have " + std::to_string(most) +
        " connections to their GPU server, and may have no more: each thread that uses CUDA has one. Use "
        "fewer "
        "threads, end processes that you no longer need, or take a larger slice; the server's admin sets the "
        "bound with its worker_memory_mib";
    static LimitedLog log;
    log.line("session " + session + ": refused, there are " + std::to_string(most) + " connections");
    const wire::ReplyHeader header{static_cast<uint32_t>(text.size()), CUDA_ERROR_DEVICE_UNAVAILABLE};
    std::string reply(reinterpret_cast<const char*>(&header), sizeof header);
    reply += text;
    // The connection is new: it has room for this, or its client has done something to it.
    send(fd, reply.data(), reply.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    close(fd);
}

void accept_connection(Worker& worker, int control_fd, Fence& fence, bool& closed) {
    wire::Hello hello;
    const int fd = take_connection(control_fd, fence, hello, closed);
    if (fd < 0) return;
    if (hello.flags == wire::hello_passage) {
        const auto session = worker.find(session_of(hello));
        session ? session->use_passage(fd) : static_cast<void>(close(fd));
        return;
    }
    if (!worker.host_memory.add_lane()) {
        refuse(fd, short_name(session_of(hello)), worker.host_memory.most_lanes());
        return;
    }
    std::thread([&worker, fd, hello] {
        keep_stack_small();
        serve(worker, fd, hello);
        worker.host_memory.remove_lane();
    }).detach();
}

// Whether this process may serve: its system calls are filtered, or need not be.
bool filtered(Seccomp wanted, Worker& worker) {
    std::string error;
    if (wanted == Seccomp::kOff || filter_system_calls(error)) return true;
    if (wanted == Seccomp::kOptional) {
        log_line("the system calls of this worker are not filtered: " + error);
        return true;
    }
    worker.status.fault("cannot serve the lease: its system calls cannot be filtered (" + error +
                        "); the agent's setting worker_seccomp says whether to go on without");
    return false;
}

int run(const Options& options) {
    auto* fence = new Fence(options.control_fd);
    if (options.live_until_ms != 0 && !fence->live_until(options.live_until_ms)) {
        log_line("the kernel gives no timer, so this worker could not be ended in time");
        return 1;
    }
    std::vector<uint64_t> limits;
    for (const Slice& slice : options.slices) limits.push_back(slice.mib << 20);
    auto* worker = new Worker(options.control_fd, std::move(limits));
    for (size_t i = 0; i < options.slices.size(); ++i)
        worker->memory.reserve(static_cast<uint8_t>(i), options.slices[i].context_mib << 20);
    std::string error;
    if (!worker->driver.open(options.driver.c_str(), error) ||
        !open_devices(worker->driver, options, worker->devices, error)) {
        worker->status.fault("cannot serve the lease: " + error);
        return 1;
    }
    NvidiaLibraries::get().search(options.libraries);
    // The software GPU's memory is this process's.
    uint64_t apart = 0;
    for (const Slice& slice : options.slices) apart += worker->driver.software ? slice.mib << 20 : 0;
    worker->host_memory.set_limit(options.host_memory_mib, apart);
    if (worker->driver.software && options.file_fd >= 0) {
        worker->driver.software->use_file(options.file_fd, apart);
        worker->host_memory.set_slice_file(worker->driver.software->file_bytes);
    }
    worker->images.set_limit(options.host_memory_mib << 20);
    if (!worker->driver.software && !worker->output.redirect()) {
        log_line("the system gives no file in memory: what kernels print is lost");
    }
    if (!filtered(options.seccomp, *worker)) return 1;
    std::thread([worker] { worker->room.watch(); }).detach();
    worker->status.report(worker->memory);
    for (bool closed = false; !closed;) {
        pollfd entry{options.control_fd, POLLIN, 0};
        poll(&entry, 1, 500);
        if (entry.revents) accept_connection(*worker, options.control_fd, *fence, closed);
        worker->status.report(worker->memory);
        worker->end_abandoned();
        if (worker->driver.software) worker->driver.software->sweep_file();
    }
    return 0;
}

// Where the machine's memory ends, the kernel ends a worker: not the agent, which all leases depend on.
void go_first_when_memory_ends() {
    constexpr std::string_view kScore = "500";
    const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file < 0) return;
    [[maybe_unused]] const ssize_t written = write(file, kScore.data(), kScore.size());
    close(file);
}

// What a lease may do to this machine: nothing beyond its own process.
void confine() {
    go_first_when_memory_ends();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_DUMPABLE, 0);
    drop_capabilities();
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN);  // a Ctrl-C at the agent's terminal is the agent's business
}

// Nothing of the agent's stays open but what it means this process to have.
void close_others(const Options& options) {
    int kept[] = {STDERR_FILENO, options.control_fd, options.mark_fd, options.file_fd};
    std::sort(std::begin(kept), std::end(kept));
    int next = STDERR_FILENO + 1;
    for (const int descriptor : kept) {
        if (next < descriptor) syscall(SYS_close_range, next, descriptor - 1, 0);
        next = std::max(next, descriptor + 1);
    }
    syscall(SYS_close_range, next, ~0u, 0);
}

}  // namespace
}  // namespace worker

int main(int argc, char** argv) {
    worker::confine();
    if (argc > 1 && std::strcmp(argv[1], "--measure-context") == 0)
        _exit(worker::measure_context(argc, argv));
    worker::Options options;
    std::string error;
    if (!worker::parse_options(argc, argv, options, error)) {
        worker::log_line(error);
        return 2;
    }
    worker::close_others(options);
    // Threads are still in the driver: the process ends without its destructors.
    _exit(worker::run(options));
}
