#include "session.h"

#include <algorithm>
#include <cstdio>
#include <new>
#include <utility>

#include "capture.h"
#include "config.h"
#include "driver.h"
#include "log.h"
#include "module.h"
#include "thread_state.h"

// A session as its user holds it.
struct GkSession {
    std::shared_ptr<softgpu::driver::Session> session;
};

namespace softgpu::driver {
namespace {

void write_text(FILE* stream, std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stream);
    std::fflush(stream);
}

void log_lines(std::string_view text) {
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size());
        if (end > 0) log_line(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

// The process's own: device printf goes to standard output, through the C library's buffer, which programs
// flush and redirect.
void tell_process(void*, uint32_t kind, const char* text, size_t bytes) {
    const std::string_view words(text, bytes);
    if (kind == kGkTextOutput) return write_text(stdout, words);
    if (kind == kGkTextError) return write_text(stderr, words);
    log_lines(words);
}

const std::shared_ptr<Session>& process_session() {
    // Never destroyed: kernels may print while the process exits.
    static const auto* const own = [] {
        auto session = std::make_shared<Session>(tell_process, nullptr);
        session->checks = checks_from_environment();
        return new std::shared_ptr<Session>(std::move(session));
    }();
    return *own;
}

GkSession* begin_session(GkTextSink sink, void* user) {
    try {
        return new GkSession{std::make_shared<Session>(sink, user)};
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}

void enter_session(GkSession* session) {
    thread_state().session = session ? session->session : nullptr;
}

void set_checks(GkSession* session, uint32_t checks) {
    session->session->checks.store(checks & kGkCheckAll, std::memory_order_relaxed);
}

void interrupt(GkSession* session) {
    session->session->interrupts.fetch_add(1, std::memory_order_release);
    if (Driver* driver = Driver::live()) driver->memory.call_budget().wake_session(session->session.get());
}

int keep_news(int keep) {
    return std::exchange(thread_state().keeps_news, keep != 0);
}

void end_session(GkSession* session) {
    session->session->end();
    delete session;
}

bool limit_mapping(uint64_t base, size_t bytes) {
    Driver* driver = Driver::live();
    return driver && driver->memory.addresses().limit(base, bytes);
}

void each_refused_kernel(void* library, GkRefusedKernel visit, void* user) {
    driver_call([&](Driver& driver) {
        const auto object = driver.handles.get<Library>(static_cast<CUlibrary>(library));
        for (const RefusedKernel& kernel : object->program->refused())
            visit(user, kernel.name.c_str(), refusal_of(kernel).c_str());
    });
}

bool use_file(int descriptor, uint64_t bytes) {
    Driver* driver = Driver::live();
    return driver && driver->memory.use_file(descriptor, bytes);
}

// Under its checks of unwritten bytes a session's memory is not for other processes, whose writes nobody
// sees.
bool allocate_in_file(uint64_t* address, size_t bytes, uint64_t* place) {
    if (current_session()->checks.load(std::memory_order_relaxed) & kGkCheckInit) return false;
    const CUresult result = context_call([&](Context& context) {
        graphs::refuse_unsafe();
        *address = context.driver.memory.allocate_in_file(context, bytes, *place);
    });
    return result == CUDA_SUCCESS;
}

uint64_t file_bytes() {
    Driver* driver = Driver::live();
    return driver ? driver->memory.file_bytes() : 0;
}

void sweep_file() {
    if (Driver* driver = Driver::live()) driver->memory.sweep_file();
}

constexpr GkSoftgpuExtension kExtension{kGkSoftgpuExtensionVersion,
                                        sizeof(GkSoftgpuExtension),
                                        begin_session,
                                        enter_session,
                                        set_checks,
                                        interrupt,
                                        end_session,
                                        limit_mapping,
                                        each_refused_kernel,
                                        use_file,
                                        allocate_in_file,
                                        file_bytes,
                                        sweep_file,
                                        keep_news};

}  // namespace

void Session::tell(GkText kind, std::string_view text) {
    const std::lock_guard lock(mutex_);
    if (sink_) sink_(user_, kind, text.data(), text.size());
}

void Session::tell_remedy() {
    if (this != process_session().get() || remedy_told_.exchange(true)) return;
    tell(kGkTextFault,
         "a kernel failed on the GPU, and every CUDA call of its context fails from now on. "
         "Restart the kernel (or the program) to get a working GPU again.\n");
}

void Session::end() {
    const std::lock_guard lock(mutex_);
    sink_ = nullptr;
}

const std::shared_ptr<Session>& current_session() {
    const auto& own = thread_state().session;
    return own ? own : process_session();
}

CUresult answer_of_wait(CUresult status) {
    if (status != CUDA_SUCCESS || thread_state().keeps_news) return status;
    Session& session = *current_session();
    return session.take_lost_work() ? CUDA_ERROR_LAUNCH_TIMEOUT : session.take_refused_work();
}

}  // namespace softgpu::driver

extern "C" __attribute__((visibility("default"))) const GkSoftgpuExtension* gk_softgpu_extension(
    uint32_t version) {
    return version == kGkSoftgpuExtensionVersion ? &softgpu::driver::kExtension : nullptr;
}
