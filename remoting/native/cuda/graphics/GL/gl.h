/* The types that NVIDIA's cudaGL.h takes from OpenGL: its functions are there, by name, and refuse. */
#pragma once
typedef unsigned int GLenum;
typedef unsigned int GLuint;
