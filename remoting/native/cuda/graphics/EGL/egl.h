/* The types that NVIDIA's cudaEGL.h takes from EGL: its functions are there, by name, and refuse. */
#pragma once
#include <stdint.h>
typedef int32_t EGLint;
typedef void *EGLImageKHR, *EGLStreamKHR, *EGLSyncKHR;
