// All of it is in NvInfer.h.
#pragma once

#include "camshaft/tensorrt/NvInfer.h"
