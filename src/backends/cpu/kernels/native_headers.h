// Highway's headers and what most kernels include, compiled once in the preset native: they are two seconds of each of
// some 80 kernels. It can be one precompiled header where there is one target alone, whose code is not repeated.
#pragma once

#include "backends/cpu/kernels/targets.h"
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/native_headers.h"
#include <hwy/foreach_target.h>
#undef HWY_TARGET_INCLUDE
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <hwy/highway.h>
