// Compiles plugins that were written for TensorRT (IPluginV2DynamicExt, IPluginV3) into plugins of Camshaft:
//
//   c++ -std=c++17 -O2 -shared -fPIC -I include/camshaft/tensorrt -I include my_plugin.cpp -o my_plugin.so
//   camshaft build model.onnx -o model.engine --plugin my_plugin.so
//
// The names are those of TensorRT's documentation, the code is Camshaft's. Only sources are compatible: a library that
// was compiled with TensorRT's own headers cannot be loaded. docs/plugins.md says how ONNX nodes name such plugins.
//
// enqueue() gets addresses of the GPU's memory and a stream, or of the host's and a null stream. What a plugin can do
// is told by macros, which may be defined before this header is included:
//   CAMSHAFT_TENSORRT_HOST 1  enqueue() computes on the host where its stream is null
//   CAMSHAFT_TENSORRT_CUDA 1  enqueue() puts its work into the stream where that is not null
//   CAMSHAFT_TENSORRT_RECORDED 1  for the same operands that work is always the same and waits for nothing: it is
//                                 recorded with the layers around it, and repeated without calling enqueue()
// Undefined the first two are 0 and 1 where CUDA's runtime headers are found, else 1 and 0; the last one is 0.
#pragma once

#include "camshaft/tensorrt/detail/base.h"         // dims, types, logger
#include "camshaft/tensorrt/detail/creators.h"     // what camshaft.tensorrt calls
#include "camshaft/tensorrt/detail/expressions.h"  // sizes of results
#include "camshaft/tensorrt/detail/library.h"      // what Camshaft calls
#include "camshaft/tensorrt/detail/plugins.h"      // the interfaces that plugins implement
#include "camshaft/tensorrt/detail/registry.h"     // creators, REGISTER_TENSORRT_PLUGIN
