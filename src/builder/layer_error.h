// Whether what one layer computed is right, where rounding moves some of its elements beyond the tolerance.
#pragma once

#include <vector>

#include "builder/verification.h"

namespace camshaft {

/// Four times what rounding does to a result may pass for correct; where that is more than this part of the result's
/// scale, or than the tolerance if that is larger, a wrong result could pass too, and comparing says nothing.
double most_telling(double tolerance);

/// A result beside the reference's, and beside what the reference makes of the same inputs with noise.
///
/// Of floating-point numbers each element may differ by the tolerance or by four times what it moved, so that one that
/// rounding decides (a gate whose sum cancels) excuses no other. Rounding that tips a comparison moves an element by
/// anything, and not the same ones in every evaluation: of those that moved beyond most_telling() four times as many
/// may differ by more than they moved. Of all else (indices, integers, strings) four times as many may differ as moved.
class LayerError {
 public:
  /// `rounding` as compare_outputs() takes it.
  LayerError(Tensor expected, Tensor actual, double tolerance, double rounding);

  /// Undefined: of another shape.
  void add_moved(const Tensor& moved);

  struct Verdict {
    bool telling = true;  ///< false when so many elements move so far that comparing says nothing
    double part = 0;      ///< the error of the element that decides, as a part of what is allowed; above 1: wrong
    double error = 0;     ///< that error itself
  };
  Verdict judge() const;
  /// The whole tensors, by the tolerance alone.
  const OutputError& compared() const { return compared_; }

 private:
  Tensor expected_, actual_;
  double tolerance_, rounding_;
  OutputError compared_;
  double differing_ = 0;       // part of the elements that noise changed, of what must be equal
  std::vector<double> moved_;  // by element, of floating-point numbers
  bool other_shape_ = false;   // of what noise made of it: how many there are is a matter of rounding
};

}  // namespace camshaft
