#include "compile/plan/shape_check.h"

#include <fmt/format.h>

#include "base/error.h"

namespace camshaft {

void require_equal(int64_t got, int64_t wanted, const char* what) {
  if (got != wanted)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the input shapes do not fit together: {} is {}, needed is {}", what, got, wanted));
}

void require_broadcast(const Dims& operand, const Dims& result) {
  bool fits = operand.size() <= result.size();
  for (size_t i = 0; fits && i < operand.size(); ++i)
    fits = operand[i] == 1 || operand[i] == result[result.size() - operand.size() + i];
  if (!fits)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the input shapes do not fit together: an operand of shape {} cannot be broadcast to {}",
                            to_string(operand), to_string(result)));
}

}  // namespace camshaft
