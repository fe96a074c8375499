// A worker parses what a client sends, and on a real GPU NVIDIA's code does: that somebody takes the process
// over has to be reckoned with. What he then may ask of the kernel is bounded here, by a filter (seccomp,
// BPF) over the numbers of system calls.
//
// It denies by kind and lets the rest through. A list of what is allowed would be tighter, but what NVIDIA's
// driver calls is known to nobody outside, and differs by version. So the question for each call is: could it
// reach something besides this process, its connections, its devices and its account's files?
//
//   denied                                   because
//   a new process, another program           nothing may outlive this process: its end frees the slice
//   a new socket, or another address for one the connections that the agent hands over are all it needs
//   signals, limits, scheduling for others   another lease's worker may have the same account
//   the death signal, session, process group the agent finds its workers by these
//   memory, descriptors, traces of others    another lease's data
//   mounts, namespaces, kernel modules, ...  nothing in them for a driver's library
//   io_uring                                 it makes calls past this filter
//
// A denied call answers EPERM where a library may try it for a reason of its own and go on without (a driver
// asks for its helper program or daemon, and for counters): a fault there would end honest work. What no
// library has an honest reason to try in a process that serves already, and what comes by the numbering of
// another architecture, which means other calls, ends the process at once: whoever asks has it in his hand.
// The kernel logs both (`journalctl -k --grep type=1326`), and the agent how the worker ended. clone3 and
// calls newer than this table answer ENOSYS, as from an older kernel: libraries go back to the calls that a
// filter can look into (clone3 keeps its flags in memory).
//
// The filter goes in after the driver has opened its devices, which may take a helper program, and before the
// first byte of a client. It holds for threads that run already (TSYNC), and nobody takes it out again.
#include "seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <vector>

namespace worker {
namespace {

constexpr uint32_t kAllow = SECCOMP_RET_ALLOW;
constexpr uint32_t kRefuse = SECCOMP_RET_ERRNO | EPERM;
constexpr uint32_t kUnknown = SECCOMP_RET_ERRNO | ENOSYS;
constexpr uint32_t kEnd = SECCOMP_RET_KILL_PROCESS;

constexpr uint32_t kX32 = 0x40000000;   // numbers of the x32 ABI have this bit
constexpr uint32_t kNewestKnown = 462;  // mseal

// What a library may try, and does without.
constexpr uint32_t kRefused[] = {
    SYS_fork,
    SYS_vfork,
    SYS_execve,
    SYS_execveat,
    // Sockets: those that the agent hands over are connected.
    SYS_socket,
    SYS_socketpair,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_accept,
    SYS_accept4,
    // Calls past this filter, counters, keys, other processes.
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_kcmp,
    SYS_pidfd_open,
    SYS_pidfd_send_signal,
    SYS_process_madvise,
    SYS_process_mrelease,
    SYS_tkill,
    SYS_personality,
    SYS_syslog,
    SYS_fanotify_init,
    SYS_setsid,
    SYS_setpgid,
    SYS_chroot,
    // Memory and queues with a name, which others of the account could share.
    SYS_shmget,
    SYS_shmat,
    SYS_shmctl,
    SYS_semget,
    SYS_semop,
    SYS_semtimedop,
    SYS_semctl,
    SYS_msgget,
    SYS_msgsnd,
    SYS_msgrcv,
    SYS_msgctl,
    SYS_mq_open,
    SYS_mq_unlink,
    // The agent's marks are locks (marks.py), and one of them is open here.
    SYS_flock,
};

// What nobody has an honest reason to try here.
constexpr uint32_t kFatal[] = {
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_pidfd_getfd,
    SYS_unshare,
    SYS_setns,
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_move_mount,
    SYS_open_tree,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mount_setattr,
    SYS_bpf,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
    SYS_acct,
    SYS_quotactl,
    SYS_open_by_handle_at,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_vhangup,
};

class Program {
  public:
    // Begins with the number in the accumulator, of this architecture and its first ABI.
    Program() {
        load(offsetof(seccomp_data, arch));
        unless_equal(AUDIT_ARCH_X86_64, kEnd);
        load_number();
        jump(BPF_JGE, kX32, 0, 1);
        answer(kEnd);
    }

    void deny(uint32_t number, uint32_t with) {
        jump(BPF_JEQ, number, 0, 1);
        answer(with);
    }

    void deny_above(uint32_t number, uint32_t with) {
        jump(BPF_JGT, number, 0, 1);
        answer(with);
    }

    // Lets the call through only where an argument is one of `values`. An argument's lower half is what the
    // kernel looks at, for each call that this is used for.
    void allow_only(uint32_t number, unsigned argument, std::vector<uint32_t> values) {
        jump(BPF_JEQ, number, 0, static_cast<uint8_t>(3 + values.size()));
        load_argument(argument);
        for (size_t i = 0; i < values.size(); ++i) {
            jump(BPF_JEQ, values[i], static_cast<uint8_t>(values.size() - i), 0);
        }
        answer(kRefuse);
        answer(kAllow);
    }

    // Refuses the call where an argument is none of `values`, and leaves the rest to what follows.
    void require(uint32_t number, unsigned argument, std::vector<uint32_t> values) {
        jump(BPF_JEQ, number, 0, static_cast<uint8_t>(3 + values.size()));
        load_argument(argument);
        for (size_t i = 0; i < values.size(); ++i) {
            jump(BPF_JEQ, values[i], static_cast<uint8_t>(values.size() - i), 0);
        }
        answer(kRefuse);
        load_number();
    }

    // Refuses the call where an argument is one of `values`.
    void refuse_if(uint32_t number, unsigned argument, std::vector<uint32_t> values) {
        jump(BPF_JEQ, number, 0, static_cast<uint8_t>(3 + values.size()));
        load_argument(argument);
        for (size_t i = 0; i < values.size(); ++i) {
            jump(BPF_JEQ, values[i], static_cast<uint8_t>(values.size() - i), 0);
        }
        answer(kAllow);
        answer(kRefuse);
    }

    // Lets the call through only where an argument has all bits of `set` and none of `clear`.
    void allow_bits(uint32_t number, unsigned argument, uint32_t set, uint32_t clear) {
        jump(BPF_JEQ, number, 0, 5);
        load_argument(argument);
        add(BPF_ALU | BPF_AND | BPF_K, set | clear);
        jump(BPF_JEQ, set, 1, 0);
        answer(kRefuse);
        answer(kAllow);
    }

    bool install(unsigned flags, std::string& error) {
        answer(kAllow);
        const sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
        const long answered = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
        if (answered == 0) return true;
        error = answered > 0 ? "thread " + std::to_string(answered) + " has a filter of its own"
                             : std::string("seccomp: ") + std::strerror(errno);
        return false;
    }

  private:
    void add(uint16_t code, uint32_t value) { code_.push_back(BPF_STMT(code, value)); }
    void load(uint32_t offset) { add(BPF_LD | BPF_W | BPF_ABS, offset); }
    void load_number() { load(offsetof(seccomp_data, nr)); }
    void load_argument(unsigned index) {
        load(static_cast<uint32_t>(offsetof(seccomp_data, args)) + 8 * index);
    }
    void answer(uint32_t action) { add(BPF_RET | BPF_K, action); }
    void jump(uint16_t test, uint32_t value, uint8_t then, uint8_t otherwise) {
        code_.push_back(BPF_JUMP(static_cast<uint16_t>(BPF_JMP | test | BPF_K), value, then, otherwise));
    }
    void unless_equal(uint32_t value, uint32_t with) {
        jump(BPF_JEQ, value, 1, 0);
        answer(with);
    }

    std::vector<sock_filter> code_;
};

// Apart, because the kernel logs what the other one denies, and every new thread asks for clone3 first.
bool hide_new_calls(std::string& error) {
    Program program;
    program.deny(SYS_clone3, kUnknown);
    program.deny_above(kNewestKnown, kUnknown);
    return program.install(SECCOMP_FILTER_FLAG_TSYNC, error);
}

// Calls that are denied or not by what they are given. ioctl comes first: a driver lives on it.
void by_argument(Program& program) {
    constexpr uint32_t kOwnerOfFile = 0x8901, kOwnerOfSocket = 0x8902;  // FIOSETOWN, SIOCSPGRP: see F_SETOWN
    constexpr uint32_t kTypeAsTerminal = 0x5412;                        // TIOCSTI
    const auto self = static_cast<uint32_t>(getpid());
    program.refuse_if(SYS_ioctl, 1, {kOwnerOfFile, kOwnerOfSocket, kTypeAsTerminal});
    constexpr uint32_t kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                     CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
    program.allow_bits(SYS_clone, 0, CLONE_THREAD, kNamespaces);
    program.refuse_if(SYS_fcntl, 1, {F_SETOWN, F_SETOWN_EX});  // whom the kernel sends SIGIO or worse
    for (const uint32_t number : {SYS_kill, SYS_tgkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo}) {
        program.allow_only(number, 0, {self});
    }
    for (const uint32_t number : {SYS_prlimit64, SYS_move_pages, SYS_migrate_pages}) {
        program.allow_only(number, 0, {0, self});
    }
    // The kernel lets an account slow all its processes down, and 0 is the thread that asks. A thread's own
    // number is refused with those of others, which no filter can tell apart.
    for (const uint32_t number :
         {SYS_sched_setaffinity, SYS_sched_setscheduler, SYS_sched_setparam, SYS_sched_setattr}) {
        program.allow_only(number, 0, {0, self});
    }
    program.require(SYS_setpriority, 0, {0 /* PRIO_PROCESS */});
    program.require(SYS_setpriority, 1, {0, self});
    program.require(SYS_ioprio_set, 0, {1 /* IOPRIO_WHO_PROCESS */});
    program.require(SYS_ioprio_set, 1, {0, self});
    program.refuse_if(SYS_prctl, 0,
                      {PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER, PR_SET_DUMPABLE, PR_SET_MM, PR_SET_PTRACER,
                       PR_CAP_AMBIENT});
}

}  // namespace

void drop_capabilities() {
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    for (unsigned long each = 0; prctl(PR_CAPBSET_READ, each, 0, 0, 0) >= 0; ++each) {
        prctl(PR_CAPBSET_DROP, each, 0, 0, 0);
    }
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    const __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3]{};
    syscall(SYS_capset, &header, none);
}

bool filter_system_calls(std::string& error) {
    if (!hide_new_calls(error)) return false;
    Program program;
    by_argument(program);
    for (const uint32_t number : kRefused) program.deny(number, kRefuse);
    for (const uint32_t number : kFatal) program.deny(number, kEnd);
    return program.install(SECCOMP_FILTER_FLAG_TSYNC | SECCOMP_FILTER_FLAG_LOG, error);
}

}  // namespace worker
