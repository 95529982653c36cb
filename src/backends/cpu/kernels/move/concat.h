// Dense tensors side by side, whatever the type of their elements.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"

namespace camshaft::cpu {

/// Several parts side by side along an axis: out[o, :] = parts[0][o, :] ++ parts[1][o, :] ++ …, dense tensors.
/// `bytes[k]`: of part k for one outer index (axis size × inner × width).
void concat(ThreadPool& pool, int64_t outer, int parts, const int64_t* bytes, const void* const* in, void* out);

}  // namespace camshaft::cpu
