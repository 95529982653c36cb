// Which steps of a scalar program are linear in what it loads.
#pragma once

#include <optional>
#include <vector>

#include "compile/region/scalar_program.h"

namespace camshaft {

/// Σ factors[i] · input i + constant
struct LinearForm {
  std::vector<double> factors;  ///< one for each of the program's inputs
  std::vector<bool> reads;      ///< whether the input is in it at all, if only with a factor of 0
  double constant = 0;

  bool is_constant() const;
};

/// What each instruction is as a linear form of f32; nullopt where it is none. With `narrow_types`, f16 and bf16 count
/// as f32, and casts between these as nothing.
std::vector<std::optional<LinearForm>> linear_forms(const ScalarProgram& program, bool narrow_types);

}  // namespace camshaft
