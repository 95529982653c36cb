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

/// Values that a model can be run on, the same for the same seed on every machine: floats are standard normal; integers
/// that index a tensor (directly or through moves and casts) are in its range; other integers and bools are 1 nine
/// times of ten, else 0, and 1 at the start of each row; with `zero_integers`, all integers are 0. The elements of
/// sequences are all of one size. In the order of graph.inputs.
std::vector<Tensor> sample_inputs(const Graph& graph, const std::vector<Dims>& shapes, uint64_t seed,
                                  bool zero_integers = false);

}  // namespace camshaft
