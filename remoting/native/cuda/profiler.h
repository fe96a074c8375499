/* The driver's functions that cuda.h leaves to cudaProfiler.h, which the runtime wheel does not have. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);

typedef CUresult (*PFN_cuProfilerStart_v4000)(void);
typedef CUresult (*PFN_cuProfilerStop_v4000)(void);

#ifdef __cplusplus
}
#endif
