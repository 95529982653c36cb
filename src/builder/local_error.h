// The errors of a tensor's slices and of its single elements: what one scale for all of it does not show, as scores
// from 0 to 1 beside boxes in pixels.
#pragma once

#include <string>
#include <vector>

#include "builder/verification.h"
#include "ir/tensor.h"

namespace camshaft {

/// What a slice's error may be, as a part of its own largest magnitude: ten times the tolerance, but no more than a
/// fifth, or the tolerance where that is larger. It is more than the tensor's tolerance because what rounds otherwise
/// does so at the scale of its sums, which a single slice need not have.
double local_tolerance(double tolerance);

/// A floating-point tensor compared with the reference by slices, one for each index of each axis whose slices have 16
/// elements or more, each at its own scale; and, from 8 elements on, by elements, each at its own magnitude: three of
/// four must be right.
///
/// Elements that are not finite, and those from `never` on (see compare_outputs()), are left out. What moves slices and
/// elements in the reference itself may be added by moved(): `excused` times that is allowed, too.
class LocalError {
 public:
  /// `tolerance` and `rounding` as compare_outputs() takes them; `unit` is what the tensor's own error is relative to.
  LocalError(const Tensor& expected, const Tensor& actual, double tolerance, double rounding, double unit, double never,
             double excused = usually_excused);

  /// By element: how far noise moves it.
  void set_moved(const std::vector<double>& moved);

  /// The largest error as a part of what is allowed, but for the `excused` elements whose error is largest: above 1:
  /// wrong.
  double part(size_t excused = 0) const;
  /// Where that is: "index 5 of axis 1: error 0.15 of its scale 1".
  std::string where() const;

 private:
  struct Axis {
    size_t axis, size, inner;
    std::vector<double> scale, error, moved;  // the largest of each index
  };

  bool counts(size_t i) const;
  template <class Function>
  void for_each(const Axis& axis, const Function& function) const;
  double slice_part(const Axis& axis, size_t index, double error) const;
  double elements_part(size_t excused) const;

  std::vector<double> expected_, errors_, moved_;
  double tolerance_, least_, never_, excused_;
  std::vector<Axis> axes_;
};

}  // namespace camshaft
