// Checks of concrete shapes where a shape rule could only say "perhaps": two symbols that must be equal may turn out
// not to be, and a kernel that trusted them would read beyond its operands.
#pragma once

#include "ir/tensor.h"

namespace camshaft {

/// Throws Error(invalid_argument) naming `what` unless the sizes are equal.
void require_equal(int64_t got, int64_t wanted, const char* what);
/// Throws Error(invalid_argument) unless an operand broadcasts to `result` by NumPy's rules.
void require_broadcast(const Dims& operand, const Dims& result);

}  // namespace camshaft
