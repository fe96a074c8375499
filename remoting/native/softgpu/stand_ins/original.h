/* The library of NVIDIA's that this stand-in stands before: it stays where it was installed, and is loaded
 * when it is first needed. Any thread may ask. */
#pragma once

/* One of its functions; null where it, or the library, is not there. The other release of CUDA is taken where
 * only that is installed: what both have is alike in both. */
void* original_function(const char* name);

/* The same, and says once on standard error what is missing. */
void* needed_function(const char* name);

/* What to install. */
extern const char kOriginalMissing[];
