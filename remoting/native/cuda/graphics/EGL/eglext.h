/* See egl.h. */
#pragma once
#include "egl.h"
