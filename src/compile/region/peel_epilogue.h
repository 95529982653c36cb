// Takes from an epilogue what a kernel does by itself: a scale, a bias, residuals, bounds, an activation. The backends
// say what theirs have.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "compile/region/activation_match.h"
#include "compile/region/epilogue_view.h"

namespace camshaft {

/// What a kernel has: activation(clamp(alpha · sum + bias + Σ beta · residual)) + addend, or less.
struct EpilogueTakes {
  bool bias = true;         ///< of one element a column
  size_t residuals = 1;     ///< of one element each
  bool factors = false;     ///< alpha and beta other than 1
  bool clamp = false;       ///< between numbers, before the activation
  bool addend = false;      ///< behind an activation, of one element each
  ActivationWanted wanted;  ///< which activations, which types, and what loads are numbers (by program input)
};

/// A part of an epilogue in that form, and what is left. Operands are indices of EpilogueView::loads; -1 for none.
struct PeeledEpilogue {
  struct Residual {
    int32_t load = -1;
    double beta = 1;
  };
  double alpha = 1;
  int32_t bias = -1;
  std::vector<Residual> residuals;
  float lo = -std::numeric_limits<float>::infinity();
  float hi = std::numeric_limits<float>::infinity();
  std::optional<ActivationFunction> activation;
  int32_t addend = -1;
  /// Of what the kernel gives so far, as its sum; nullopt: that is the result.
  std::optional<EpilogueView> rest;
};

/// As much as the kernel takes of an epilogue over real numbers. Sums may be added up in another order than the
/// program's.
PeeledEpilogue peel_epilogue(const EpilogueView& view, const EpilogueTakes& takes);

}  // namespace camshaft
