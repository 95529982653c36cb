// The arithmetic of ops::PostTransform. Internal to ml/.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "ir/ops/score_transform.h"

namespace camshaft::ops {

/// 1 / (1 + e^-x), without overflow.
template <class T>
T logistic_of(T x) {
  const T y = T{1} / (T{1} + std::exp(-std::abs(x)));
  return x < 0 ? T{1} - y : y;
}

/// The quantile function of the normal distribution, by Winitzki's approximation of the inverse error function with
/// a = 0.147, which is what ONNX Runtime computes (relative error about 2e-3).
template <class T>
T probit_of(T probability) {
  const T x = 2 * probability - 1;
  const T log = std::log((1 - x) * (1 + x));
  const T v = static_cast<T>(2 / (3.14159 * 0.147)) + log / 2;
  const T root = std::sqrt(std::sqrt(v * v - log / static_cast<T>(0.147)) - v);
  return static_cast<T>(1.41421356) * (x < 0 ? -root : root);
}

/// In place, one row of scores. softmax_zero leaves zeros (below 1e-7) out of the softmax.
template <class T>
void transform_scores(PostTransform transform, T* scores, int64_t count) {
  switch (transform) {
    case PostTransform::none:
      return;
    case PostTransform::logistic:
      for (int64_t i = 0; i < count; ++i) scores[i] = logistic_of(scores[i]);
      return;
    case PostTransform::probit:
      for (int64_t i = 0; i < count; ++i) scores[i] = probit_of(scores[i]);
      return;
    case PostTransform::softmax:
    case PostTransform::softmax_zero:
      break;
  }
  T largest = std::numeric_limits<T>::lowest(), sum = 0;
  for (int64_t i = 0; i < count; ++i) largest = scores[i] > largest ? scores[i] : largest;
  const T for_zeros = transform == PostTransform::softmax_zero ? std::exp(-largest) : T{0};
  for (int64_t i = 0; i < count; ++i) {
    if (transform == PostTransform::softmax_zero && std::abs(scores[i]) <= static_cast<T>(1e-7)) {
      scores[i] *= for_zeros;
    } else {
      scores[i] = std::exp(scores[i] - largest);
      sum += scores[i];
    }
  }
  for (int64_t i = 0; i < count; ++i) scores[i] /= sum;
}

}  // namespace camshaft::ops
