// The interfaces are in NvInfer.h, parameters of TensorRT's own plugins in NvInferPluginUtils.h.
#pragma once

#include "camshaft/tensorrt/NvInferPluginUtils.h"
