// Takes from the epilogue of an integer product what makes its sums real numbers, or steps of a scale again.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "compile/region/epilogue_view.h"

namespace camshaft {

/// Integers of 8 bits that a scaled sum x ends as:
///
///   q = rounds ? round(clamp(x, own_lo, own_hi)) : x          (steps of the product's own)
///   saturate(round(clamp(own · q + other · addend + shift, lo, hi)) + zero)
///
/// A NaN of x is `own_nan`, or, where it is not rounded, 0 at the end.
struct StepsOfSum {
  static constexpr float infinity = std::numeric_limits<float>::infinity();
  DType type = DType::u8;
  int32_t zero = 0;
  float lo = -infinity, hi = infinity;
  bool rounds = false;
  float own_lo = -infinity, own_hi = infinity, own_nan = 0;
  float own = 1, shift = 0;
  int32_t addend = -1;  ///< index of EpilogueView::loads: 8 bits, one element each; -1 for none
  float other = 0;

  bool operator==(const StepsOfSum&) const = default;
};

/// Integer sums that are multiplied by a number in f32, first of all.
struct ScaledSums {
  int32_t load = -1;                               ///< the number, or one a column; -1:
  float number = 0;                                ///< this one
  std::optional<StepsOfSum> steps = std::nullopt;  ///< what they end as, if it is that
  EpilogueView behind;                             ///< otherwise: what follows, with the product as its sum
};

/// The end of an epilogue that makes steps of a number x in f32: q is x, and there is no addend.
struct StepsOfReal {
  EpilogueView real;  ///< the epilogue up to x
  StepsOfSum steps;
};

/// All ways to see an epilogue so, that with the longest end first; none where the result is not of 8 bits.
std::vector<StepsOfReal> peel_steps(const EpilogueView& view);

/// nullopt where sums are not scaled so.
std::optional<ScaledSums> peel_scale(const EpilogueView& view);

}  // namespace camshaft
