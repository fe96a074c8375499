// What front/platform.h wants of this library about texture and surface objects: they are not forwarded.
#include "front/placement.h"
#include "front/platform.h"

namespace front::platform {

namespace {

[[noreturn]] void not_forwarded(const char* name) {
    require_done(false, name);
    refuse(CUDA_ERROR_NOT_SUPPORTED);
}

}  // namespace

CUtexObject make_texture(const Texture&) {
    not_forwarded("a texture object");
}
CUsurfObject make_surface(const CUDA_RESOURCE_DESC&) {
    not_forwarded("a surface object");
}

// None has been made.
Texture texture(CUtexObject) {
    refuse(CUDA_ERROR_INVALID_VALUE);
}
void end_texture(CUtexObject) {
    refuse(CUDA_ERROR_INVALID_VALUE);
}
CUDA_RESOURCE_DESC surface(CUsurfObject) {
    refuse(CUDA_ERROR_INVALID_VALUE);
}
void end_surface(CUsurfObject) {
    refuse(CUDA_ERROR_INVALID_VALUE);
}

}  // namespace front::platform
