#include "software.h"

#include "handlers.h"
#include "status.h"

namespace worker {
namespace {

void receive(void* user, uint32_t kind, const char* text, size_t bytes) {
    Session& session = *static_cast<Session*>(user);
    const std::string_view words(text, bytes);
    switch (kind) {
        case kGkTextOutput:
            return session.notices.add(wire::NoticeKind::output, words);
        case kGkTextError:
            return session.notices.add(wire::NoticeKind::error, words);
        case kGkTextFault:
            log_line("session " + session.name() + ": " + std::string(words));
            return session.notices.add(wire::NoticeKind::lines, words);
        default:
            return session.notices.add(wire::NoticeKind::lines, words);
    }
}

}  // namespace

void SoftwareSession::begin(Session& session) {
    if (extension_) session_ = extension_->begin_session(receive, &session);
}

void SoftwareSession::end() {
    if (session_) extension_->end_session(session_);
    session_ = nullptr;
}

void SoftwareSession::enter() const {
    if (extension_) extension_->enter_session(session_);
}

bool SoftwareSession::set_checks(uint32_t checks) const {
    if (session_) extension_->set_checks(session_, checks);
    return session_ != nullptr;
}

bool SoftwareSession::interrupt() const {
    if (session_) extension_->interrupt(session_);
    return session_ != nullptr;
}

void SoftwareSession::limit_mapping(uint64_t base, uint64_t bytes) const {
    if (extension_) extension_->limit_mapping(base, bytes);
}

void SoftwareSession::each_refused_kernel(CUlibrary library, const Refused& visit) const {
    if (!extension_) return;
    const auto pass_on = [](void* user, const char* name, const char* why) {
        (*static_cast<const Refused*>(user))(name, why);
    };
    extension_->each_refused_kernel(library, pass_on, const_cast<Refused*>(&visit));
}

CUresult handle_set_checks(Context& context, uint8_t, wire::Reader& payload, wire::Writer&) {
    wire::ChecksMessage message;
    if (!payload.take(message) || !payload.finished()) return kMalformed;
    return context.session().software.set_checks(message.checks) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace worker
