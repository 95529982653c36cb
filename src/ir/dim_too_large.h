// The error of a size whose expression outgrows its limits (dim_internal.h).
#pragma once

#include "base/error.h"

namespace camshaft {

/// Thrown by the arithmetic of Dim. A rule that can leave a size to running catches it.
class DimTooLarge : public Error {
 public:
  explicit DimTooLarge(const std::string& what)
      : Error(ErrorCode::invalid_argument, "a tensor dimension's expression is too large: " + what) {}
};

}  // namespace camshaft
