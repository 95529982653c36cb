// The table of all operators.
#pragma once

#include "ir/op.h"

namespace camshaft {

/// Every operator of this library, by name.
const OpRegistry& operators();

}  // namespace camshaft
