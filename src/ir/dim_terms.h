// What a Dim is made of: for those who write its arithmetic in another language.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/dim.h"

namespace camshaft {

enum class DimFunction : uint8_t { symbol, floor_div, min, max, broadcast };

/// A symbol, or a function of two dims.
struct DimFactor {
  DimFunction function = DimFunction::symbol;
  std::string name;  ///< of a symbol
  Dim a, b;          ///< of a function
};

struct DimTerm {
  int64_t coefficient = 0;         ///< never 0
  std::vector<DimFactor> factors;  ///< at least one; a power repeats its factor
};

/// constant + Σ coefficient · Π factors
struct DimTerms {
  int64_t constant = 0;
  std::vector<DimTerm> terms;
};

DimTerms terms_of(const Dim& dim);

}  // namespace camshaft
