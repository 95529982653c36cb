// The version of TensorRT whose interfaces these are. Sources for TensorRT 8 and 9, whose sizes are of 32 bits, are
// compiled with -DNV_TENSORRT_MAJOR=8 (and -DNV_TENSORRT_MINOR=6).
#pragma once

#if !defined(NV_TENSORRT_MAJOR)
#define NV_TENSORRT_MAJOR 10
#endif
#if !defined(NV_TENSORRT_MINOR)
#if NV_TENSORRT_MAJOR == 10
#define NV_TENSORRT_MINOR 13
#else
#define NV_TENSORRT_MINOR 0
#endif
#endif
#if !defined(NV_TENSORRT_PATCH)
#define NV_TENSORRT_PATCH 0
#endif
#define NV_TENSORRT_BUILD 0
