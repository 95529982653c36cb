// Highway and what most kernels include, compiled once in a first build (the preset native): two seconds of each of
// some 80 kernels. That is possible where they are compiled for one target: no source is read again for another.
#pragma once

#include "backends/cpu/kernels/targets.h"

#define HWY_TARGET_INCLUDE "backends/cpu/kernels/precompiled.h"
#include <hwy/foreach_target.h>
#undef HWY_TARGET_INCLUDE

#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "base/work_scope.h"
