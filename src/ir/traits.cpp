#include "ir/traits.h"

#include <fmt/format.h>

#include "base/error.h"

namespace camshaft {

const Shape& SizeContext::operand(size_t i) const {
  if (i >= operands_.size() || !operands_[i])
    throw Error(ErrorCode::invalid_model, fmt::format("input {} is missing", i));
  return *operands_[i];
}

double SizeContext::elements(const Shape& shape) const {
  double count = 1;
  for (const Dim& dim : shape) count *= size(dim);
  return count;
}

double SizeContext::elements_per_index(const Shape& shape) const {
  const double first = size(shape.at(0));
  return first > 0 ? elements(shape) / first : 0;
}

}  // namespace camshaft
