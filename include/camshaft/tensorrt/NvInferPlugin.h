// The interfaces are in NvInfer.h, parameters of TensorRT's own plugins in NvInferPluginUtils.h.
#pragma once

#include "camshaft/tensorrt/NvInferPluginUtils.h"

extern "C" {
#if defined(CAMSHAFT_TENSORRT_OWN_INIT)
bool initLibNvInferPlugins(void* logger, char const* libNamespace);
#else
/// Of those that only call it: TensorRT's own plugins that Camshaft has are operators, and need no registering. A
/// library that defines it itself, beside this one, has it called when it is loaded and has no creators otherwise;
/// Clang allows that with -DCAMSHAFT_TENSORRT_OWN_INIT alone.
extern inline __attribute__((gnu_inline, always_inline)) bool initLibNvInferPlugins(void*, char const*) {
  return true;
}
#endif
}
