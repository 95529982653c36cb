// What the classifiers and regressors of ai.onnx.ml do to their scores at the end.
#pragma once

#include <cstdint>

#include "base/reflect.h"

namespace camshaft::ops {

enum class PostTransform : uint8_t { none, logistic, softmax, softmax_zero, probit };

}  // namespace camshaft::ops

namespace camshaft {
template <>
struct EnumNames<ops::PostTransform> {
  static constexpr std::string_view values[] = {"none", "logistic", "softmax", "softmax_zero", "probit"};
};
}  // namespace camshaft
