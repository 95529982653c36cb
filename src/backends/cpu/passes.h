// The CPU's passes, in order.
#pragma once

#include "optimize/pass_list.h"

namespace camshaft::cpu {

/// `rounding`: what products of f32 may do to their operands.
BackendPasses passes(ops::Rounding rounding);

}  // namespace camshaft::cpu
