// Seeded inputs for checking and benchmarking.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace camshaft {

/// Concrete input shapes: `given` where there is one, `symbols` (a profile's optimum) next, and for sizes that nobody
/// named a guess: 1 along the first axis, `fallback` along the others (halved while the inputs exceed 8 million
/// elements); equal symbols get equal sizes. In the order of graph.inputs. Throws Error(invalid_argument) for an
/// unknown name or a shape that does not fit.
std::vector<Dims> choose_input_shapes(const Graph& graph, const std::map<std::string, Dims>& given,
                                      const SymbolBindings& symbols, int64_t fallback = 64);

/// Which integers are drawn, but for those that index a tensor, directly or through moves and casts: they are in its
/// range, or 0.
enum class SampleIntegers {
  /// Of 8 and 16 bits, as pixels are: any, one in eight the least or the greatest. Wider ones that sums, products and
  /// comparisons of integers alone are made of: from -1000 to 1000. All others, which may be masks, lengths and axes,
  /// and bools: 1 nine times of ten, else 0, and 1 at the start of each row.
  any,
  zeros_and_ones,  ///< as the others of `any`
  zeros,
};

/// What floats are made of standard normal numbers x. All but the first are for models that give no finite number of
/// those: logarithms, roots, arcs.
enum class SampleFloats {
  normal,
  positive,   ///< |x|
  below_one,  ///< |x| / (1 + |x|)
  above_one,  ///< 1 + |x|
};

/// Values that a model can be run on, the same for the same seed on every machine. The elements of sequences are all of
/// one size. In the order of graph.inputs.
std::vector<Tensor> sample_inputs(const Graph& graph, const std::vector<Dims>& shapes, uint64_t seed,
                                  SampleIntegers integers = SampleIntegers::any,
                                  SampleFloats floats = SampleFloats::normal);

}  // namespace camshaft
