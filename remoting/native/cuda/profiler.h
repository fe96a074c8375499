/* The driver's functions that cuda.h leaves to cudaProfiler.h, which the runtime wheel does not have. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

typedef enum CUoutput_mode_enum { CU_OUT_KEY_VALUE_PAIR = 0, CU_OUT_CSV = 1 } CUoutput_mode;

CUresult cuProfilerInitialize(const char* configFile, const char* outputFile, CUoutput_mode outputMode);
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);

typedef CUresult (*PFN_cuProfilerInitialize_v4000)(const char* configFile, const char* outputFile,
                                                   CUoutput_mode outputMode);
typedef CUresult (*PFN_cuProfilerStart_v4000)(void);
typedef CUresult (*PFN_cuProfilerStop_v4000)(void);

#ifdef __cplusplus
}
#endif
