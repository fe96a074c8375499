// What a name answers that its library has and does not do: the library's own word for it.
#include "cuda/unsupported.h"
#include "roles.h"
#include "tell.h"

extern "C" int library_unsupported(const char* name) {
    cuda::say_unsupported(name, LIBRARY_STATUS LIBRARY_REFUSAL, libraries::tell_user);
    return LIBRARY_REFUSAL_CODE;
}

extern "C" void library_tells(const char* name, const char* why) {
    cuda::say_once(name, why, [&] { return std::string(name) + ": " + why; }, libraries::tell_user);
}

extern "C" int library_refuses(const char* name, const char* why) {
    if (!*why) return library_unsupported(name);
    library_tells(name, (std::string(why) + "; it returns " LIBRARY_STATUS LIBRARY_REFUSAL).c_str());
    return LIBRARY_REFUSAL_CODE;
}
