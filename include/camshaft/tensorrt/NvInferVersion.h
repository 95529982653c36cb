// The version of TensorRT whose interfaces these are.
#pragma once

#define NV_TENSORRT_MAJOR 10
#define NV_TENSORRT_MINOR 13
#define NV_TENSORRT_PATCH 0
#define NV_TENSORRT_BUILD 0
