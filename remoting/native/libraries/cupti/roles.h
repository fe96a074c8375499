/* What roles CUPTI's names have beside being unsupported. */
#pragma once

#include "../roles.h"

#ifdef __cplusplus
extern "C" {
#endif
int cupti_enable(void);
#ifdef __cplusplus
}
#endif

#define ROLE_accept(name)   \
    LIBRARY_NAME name(void) { \
        return 0;             \
    }
#define ROLE_enable(name)     \
    LIBRARY_NAME name(void) {   \
        return cupti_enable();  \
    }
