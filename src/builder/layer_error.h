// Whether what one layer computed is right, where rounding moves some of its elements beyond the tolerance.
#pragma once

#include <string>
#include <vector>

#include "builder/local_error.h"
#include "builder/verification.h"

namespace camshaft {

/// By which part of their rounding_scale() sums in f32 are moved as noise: they may be off by four times that. Sums of
/// random signs are by 1/sqrt(terms) of it, those that rise to a peak and fall again by an eighth.
constexpr double noise_of_sums = 0x1p-26;

/// Four times what rounding does to a result may pass for correct; where that is more than this part of the result's
/// scale, or than the tolerance if that is larger, a wrong result could pass too, and comparing says nothing.
double most_telling(double tolerance);

/// How many of `all` elements may differ where noise decides `moved` of them otherwise: four times as many, for others
/// may be as near their decision, but no more than an eighth of all, or four, beside those.
double most_excused(double moved, double all);

/// A result beside the reference's, and beside what the reference makes of the same inputs with noise.
///
/// Of floating-point numbers each element may differ by the tolerance or by four times what it moved, so that one that
/// rounding decides (a gate whose sum cancels) excuses no other; slices and elements are judged at their own scale, too
/// (LocalError). Rounding that tips a comparison moves an element by anything, and not the same ones in every
/// evaluation: most_excused() of those that moved beyond most_telling() may differ by more than they moved, but of few
/// elements no more than half, or an eighth beside these. Where nothing jumps the same elements move every time, and a
/// quarter of them may have been moved by too little. So may as many of all else (indices, integers, strings)
/// as moved.
///
/// What is rounded to steps, as quantised values are, may be a step off where rounding may have moved it across the
/// edge between two steps, and what is computed of it may be off by what that makes of it (add_steps()). Where that is
/// more than most_telling(), the element counts with those that noise moves so far, of which too many tell nothing: the
/// sine of a number that is rounded at 10^5 passed for 0.
class LayerError {
 public:
  /// `rounding` as compare_outputs() takes it; `excused` instead of the four times above.
  LayerError(Tensor expected, Tensor actual, double tolerance, double rounding, double excused = usually_excused);

  /// Undefined: of another shape.
  void add_moved(const Tensor& moved);
  /// What the reference makes of it when numbers that this layer rounds to steps are on the other side of an edge that
  /// they are near (across_edges()).
  void add_steps(const Tensor& moved);

  /// Whether rounding may tip something in this layer (the default), or a small change is one of the result, too.
  void set_jumps(bool jumps) { jumps_ = jumps; }
  /// Where nothing jumps: whether a few changes may be many times what others are (the default), as of quotients.
  void set_spreads(bool spreads) { spreads_ = spreads; }

  struct Verdict {
    bool telling = true;  ///< false when so many elements move so far that comparing says nothing
    double part = 0;      ///< the error of the element that decides, as a part of what is allowed; above 1: wrong
    double error = 0;     ///< that error itself
    double local = 0;     ///< LocalError::part(); above 1: wrong, too
  };
  Verdict judge() const;
  /// LocalError::part() of floating-point numbers before anything is excused; else 0.
  double local_part() const;
  /// LocalError::where().
  std::string where() const;
  /// The whole tensors, by the tolerance alone.
  const OutputError& compared() const { return compared_; }

 private:
  LocalError local() const;
  /// What noise of an element is measured by: the scale, or itself where it means "never" and is no part of that. By
  /// the scale all such of a mask moved far, and excused a diagonal that was masked.
  std::vector<double> magnitudes() const;
  /// So many elements of which noise, or steps across edges, may make anything.
  double undecided() const;
  Verdict judge_exact() const;
  std::vector<double> errors_beyond_steps() const;
  Tensor without_steps() const;

  Tensor expected_, actual_;
  double tolerance_, rounding_, excused_;
  OutputError compared_;
  double differing_ = 0;       // part of the elements that noise changed, of what must be equal
  std::vector<double> moved_;  // by element, of numbers
  std::vector<double> steps_;  // by element, of numbers: how far steps across edges move it
  bool jumps_ = true, spreads_ = true;
  bool other_shape_ = false;  // of what noise made of it: how many there are is a matter of rounding
};

}  // namespace camshaft
