// The words that NVIDIA's runtime headers take from crt/host_defines.h, which is not in the runtime's wheel: here
// they mean nothing but alignment.
#pragma once

#define CUDARTAPI
#define CUDARTAPI_CDECL
#define __host__
#define __device__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))
