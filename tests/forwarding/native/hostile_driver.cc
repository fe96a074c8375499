// A CUDA driver that somebody has taken over, in a worker that serves: what the worker has it load names an
// attack, which it makes with the worker's own process. The answer stands in HOSTILE_DRIVER_RESULTS, a line
// each: the attack, what came of it (a number, and errno below 0).
//
// `early NAME ...` makes it in a thread that ran before the worker gave anything up.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/io_uring.h>
#include <linux/perf_event.h>
#include <linux/sched.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "cuda_abi.h"

namespace {

using Words = std::vector<std::string>;

long number(const Words& words, size_t index) {
    return index < words.size() ? std::strtol(words[index].c_str(), nullptr, 0) : 0;
}

// What a descendant does that got away: it leaves the worker's group, and stays.
[[noreturn]] void stay() {
    setsid();
    for (int fd = 0; fd < 1024; ++fd) close(fd);
    for (;;) pause();
}

long of_child(long pid) {
    if (pid == 0) stay();
    return pid;
}

long clone_anew(bool new_call) {
    if (!new_call) return of_child(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0));
    clone_args arguments{};
    arguments.exit_signal = SIGCHLD;
    return of_child(syscall(SYS_clone3, &arguments, sizeof arguments));
}

long spawn() {
    pid_t child;
    char name[] = "sleep", time[] = "600";
    char* arguments[] = {name, time, nullptr};
    const int error = posix_spawn(&child, "/bin/sleep", nullptr, nullptr, arguments, environ);
    errno = error;
    return error ? -1 : child;
}

// The first descriptor that is a socket; the worker's control socket, or a lane.
int own_socket() {
    for (int fd = 3; fd < 1024; ++fd) {
        struct stat about;
        if (fstat(fd, &about) == 0 && S_ISSOCK(about.st_mode)) return fd;
    }
    return -1;
}

long reach_port(long port) {
    sockaddr_in there{};
    there.sin_family = AF_INET;
    there.sin_port = htons(static_cast<uint16_t>(port));
    there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    return fd < 0 ? -1 : connect(fd, reinterpret_cast<const sockaddr*>(&there), sizeof there);
}

long on_own_socket(const std::string& call) {
    const int fd = own_socket();
    sockaddr away{};
    away.sa_family = AF_UNSPEC;
    if (call == "connect") return connect(fd, &away, sizeof away);
    if (call == "bind") return bind(fd, &away, sizeof away);
    if (call == "listen") return listen(fd, 1);
    return accept(fd, nullptr, nullptr);
}

// By the 32-bit numbering, where 20 is getpid and 20 here is writev.
long by_interrupt() {
    long result = 20;
    asm volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
    return result;
}

long read_of(long pid) {
    char byte;
    int here;
    const iovec to{&byte, 1}, from{&here, 1};
    return syscall(SYS_process_vm_readv, pid, &to, 1, &from, 1, 0);
}

long queue_signal(long pid, long signal) {
    siginfo_t about{};
    about.si_code = SI_QUEUE;
    return syscall(SYS_rt_sigqueueinfo, pid, signal, &about);
}

long ring() {
    io_uring_params parameters{};
    return syscall(SYS_io_uring_setup, 1, &parameters);
}

long counter() {
    perf_event_attr about{};
    about.type = PERF_TYPE_SOFTWARE;
    about.size = sizeof about;
    return syscall(SYS_perf_event_open, &about, 0, -1, -1, 0);
}

long limit_of(long pid) {
    rlimit limit;
    return syscall(SYS_prlimit64, pid, RLIMIT_NOFILE, nullptr, &limit);
}

// What the kernel lets an account do to the scheduling of all its processes.
long slow(const std::string& how, long pid) {
    if (how == "nice") return setpriority(PRIO_PROCESS, static_cast<id_t>(pid), 19);
    if (how == "io") return syscall(SYS_ioprio_set, 1 /* a process */, pid, 3 << 13 /* idle */);
    if (how == "affinity") {
        cpu_set_t core;
        CPU_ZERO(&core);
        CPU_SET(sched_getcpu(), &core);
        return sched_setaffinity(static_cast<pid_t>(pid), sizeof core, &core);
    }
    const sched_param none{};
    if (how == "idle") return sched_setscheduler(static_cast<pid_t>(pid), SCHED_IDLE, &none);
    if (how == "parameters") return sched_setparam(static_cast<pid_t>(pid), &none);
    const uint32_t attributes[14] = {sizeof attributes, SCHED_IDLE};
    return syscall(SYS_sched_setattr, pid, attributes, 0);
}

// Locks of the agent's that are open here, taken for this process alone.
long lock_all() {
    int taken = 0;
    for (int fd = 3; fd < 1024; ++fd) taken += flock(fd, LOCK_EX | LOCK_NB) == 0;
    return taken;
}

std::atomic<int> heard{0};

// What an honest driver and worker do, all of it; the number of what failed.
long honest_work() {
    long failed = 0;
    std::atomic<int> ran{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) threads.emplace_back([&] { ++ran; });
    for (std::thread& thread : threads) thread.join();
    failed += ran != 8;
    void* memory = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    failed += memory == MAP_FAILED || mprotect(memory, 4096, PROT_READ | PROT_EXEC) != 0;
    failed += memory != MAP_FAILED && munmap(memory, 1 << 20) != 0;
    const char* folder = std::getenv("TMPDIR");
    const std::string name = std::string(folder ? folder : "/tmp") + "/cache-" + std::to_string(getpid());
    const int file = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    failed += file < 0 || write(file, "kernel", 6) != 6 || rename(name.c_str(), (name + "-0").c_str()) != 0;
    failed += unlink((name + "-0").c_str()) != 0 || close(file) != 0;
    failed += dlopen("libz.so.1", RTLD_NOW) == nullptr && dlopen("libm.so.6", RTLD_NOW) == nullptr;
    signal(SIGUSR1, [](int) { ++heard; });
    failed += raise(SIGUSR1) != 0 || kill(getpid(), SIGUSR1) != 0;
    failed += heard < 1;
    int ends[2];
    failed += pipe2(ends, O_CLOEXEC) != 0 || eventfd(0, EFD_CLOEXEC) < 0;
    failed += memfd_create("image", MFD_CLOEXEC) < 0;
    cpu_set_t cores;
    failed +=
        sched_getaffinity(0, sizeof cores, &cores) != 0 || sched_setaffinity(0, sizeof cores, &cores) != 0;
    failed += prctl(PR_SET_NAME, "cuda-worker") != 0;
    failed += setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0)) != 0;
    rlimit limit;
    failed += getrlimit(RLIMIT_NOFILE, &limit) != 0 || setrlimit(RLIMIT_NOFILE, &limit) != 0;
    return failed;
}

const std::map<std::string, std::function<long(const Words&)>>& attacks() {
    static const auto* table = new std::map<std::string, std::function<long(const Words&)>>{
        {"exec", [](const Words&) { return execl("/bin/sleep", "sleep", "600", nullptr); }},
        {"fork", [](const Words&) { return of_child(fork()); }},
        {"fork-by-number", [](const Words&) { return of_child(syscall(SYS_fork)); }},
        {"clone", [](const Words&) { return clone_anew(false); }},
        {"clone3", [](const Words&) { return clone_anew(true); }},
        {"spawn", [](const Words&) { return spawn(); }},
        {"reach", [](const Words& w) { return reach_port(number(w, 1)); }},
        {"socket", [](const Words& w) { return socket(static_cast<int>(number(w, 1)), SOCK_DGRAM, 0); }},
        {"pair",
         [](const Words&) {
             int ends[2];
             return socketpair(AF_UNIX, SOCK_DGRAM, 0, ends);
         }},
        {"on-own-socket", [](const Words& w) { return on_own_socket(w.at(1)); }},
        {"kill", [](const Words& w) { return syscall(SYS_kill, number(w, 1), number(w, 2)); }},
        {"tkill", [](const Words& w) { return syscall(SYS_tkill, number(w, 1), number(w, 2)); }},
        {"tgkill",
         [](const Words& w) { return syscall(SYS_tgkill, number(w, 1), number(w, 1), number(w, 2)); }},
        {"queue", [](const Words& w) { return queue_signal(number(w, 1), number(w, 2)); }},
        {"pidfd", [](const Words& w) { return syscall(SYS_pidfd_open, number(w, 1), 0); }},
        {"own-signals-for", [](const Words& w) { return fcntl(own_socket(), F_SETOWN, number(w, 1)); }},
        {"death-signal", [](const Words&) { return prctl(PR_SET_PDEATHSIG, 0); }},
        {"readable-again", [](const Words&) { return prctl(PR_SET_DUMPABLE, 1); }},
        {"setsid", [](const Words&) { return setsid(); }},
        {"setpgid", [](const Words&) { return setpgid(0, 0); }},
        {"limits", [](const Words& w) { return limit_of(number(w, 1)); }},
        {"slow", [](const Words& w) { return slow(w.at(1), number(w, 2)); }},
        {"lock", [](const Words&) { return lock_all(); }},
        {"ring", [](const Words&) { return ring(); }},
        {"counter", [](const Words&) { return counter(); }},
        {"userfault", [](const Words&) { return syscall(SYS_userfaultfd, O_CLOEXEC); }},
        {"keys", [](const Words&) { return syscall(SYS_keyctl, 0, -3, 1); }},
        {"shared-memory", [](const Words&) { return syscall(SYS_shmget, 0x6b, 4096, 01600); }},
        {"ptrace", [](const Words& w) { return ptrace(PTRACE_SEIZE, number(w, 1), 0, 0); }},
        {"read-memory", [](const Words& w) { return read_of(number(w, 1)); }},
        {"open", [](const Words& w) { return open(w.at(1).c_str(), O_RDONLY | O_CLOEXEC); }},
        {"unshare", [](const Words&) { return unshare(CLONE_NEWUSER); }},
        {"setns", [](const Words&) { return setns(open("/proc/1/ns/net", O_RDONLY), CLONE_NEWNET); }},
        {"mount", [](const Words&) { return mount("none", "/tmp", "tmpfs", 0, nullptr); }},
        {"bpf", [](const Words&) { return syscall(SYS_bpf, 0, nullptr, 0); }},
        {"int80", [](const Words&) { return by_interrupt(); }},
        {"x32", [](const Words&) { return syscall(0x40000000 | SYS_getpid); }},
        {"beyond", [](const Words&) { return syscall(600); }},
        {"nothing", [](const Words&) { return 0l; }},
        {"honest", [](const Words&) { return honest_work(); }},
    };
    return *table;
}

void attempt(Words words) {
    const std::string name = words.at(0);
    errno = 0;
    const auto known = attacks().find(name);
    const long result = known == attacks().end() ? -2 : known->second(words);
    const std::string line = name + " " + std::to_string(result < 0 ? -errno : result) + "\n";
    const int file = open(std::getenv("HOSTILE_DRIVER_RESULTS"), O_WRONLY | O_APPEND | O_CLOEXEC);
    [[maybe_unused]] const ssize_t written = write(file, line.data(), line.size());
    close(file);
}

// The thread that was there before, and what it is to do.
struct Early {
    std::mutex mutex;
    std::condition_variable changed;
    Words words;
    bool asked = false;

    void start() {
        std::thread([this] {
            std::unique_lock lock(mutex);
            for (;;) {
                changed.wait(lock, [this] { return asked; });
                attempt(words);
                asked = false;
                changed.notify_all();
            }
        }).detach();
    }
    void ask(Words what) {
        std::unique_lock lock(mutex);
        words = std::move(what);
        asked = true;
        changed.notify_all();
        changed.wait(lock, [this] { return !asked; });
    }
};

Early& early() {
    static auto* only = new Early;
    return *only;
}

}  // namespace

extern "C" {

void gk_tell_user(const char*) {}

CUresult cuInit(unsigned int) {
    return early().start(), CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int* version) {
    return *version = 13000, CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
    return *count = 1, CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
    return *device = ordinal, CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
    return *context = reinterpret_cast<CUcontext>(0x1000), CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext) {
    return CUDA_SUCCESS;
}
CUresult cuLibraryLoadData(CUlibrary*, const void* image, CUjit_option*, void**, unsigned, CUlibraryOption*,
                           void**, unsigned) {
    std::istringstream text(static_cast<const char*>(image));
    Words words;
    for (std::string word; text >> word;) words.push_back(word);
    if (!words.empty() && words[0] == "early") {
        early().ask({words.begin() + 1, words.end()});
    } else if (!words.empty()) {
        attempt(words);
    }
    return CUDA_ERROR_INVALID_IMAGE;
}

}  // extern "C"
