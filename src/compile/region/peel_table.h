// Takes from an epilogue what is a function of 8 bits: of the steps that a product ends as for a while.
#pragma once

#include <vector>

#include "compile/region/epilogue_view.h"

namespace camshaft {

struct TableOfSteps {
  EpilogueView steps;   ///< the epilogue up to these 8 bits, which are its result
  ScalarProgram table;  ///< what follows: a function of input 0, which they are, to 8 bits
};

/// All ways to see an epilogue so, that with the shortest function first; none where the result is not of 8 bits.
/// Exporters quantise between any two operators.
std::vector<TableOfSteps> peel_tables(const EpilogueView& view);

}  // namespace camshaft
