// Which sets of inputs an engine is judged on beside the first.
#pragma once

#include <string>
#include <vector>

#include "builder/verification_sample.h"
#include "engine/profile.h"

namespace camshaft {

/// One set of inputs to make.
struct SamplePoint {
  std::string name;  ///< "the largest shapes of profile 0"
  uint64_t seed = 0;
  std::vector<SymbolBindings> either;  ///< the first sizes that the reference accepts are taken
  bool is_promised = false;  ///< the engine was asked to take these shapes: they must not go missing without a word
  double share = 1;          ///< of the time for further points, which it may take at most
};

/// The further points to judge an engine of `model` at, in the order of their use: every profile at its smallest,
/// largest and usual shapes; without profiles, for inputs of any size, two of what is one on the first axes and other
/// sizes on the others, and larger ones of both where those are cheap; and two other seeds, or one for each of
/// `adapters`, which are promised. `optimum` has the sizes that are settled, `first` are the shapes of the first
/// sample.
std::vector<SamplePoint> further_points(const Graph& model, const std::vector<Profile>& profiles,
                                        const SymbolBindings& optimum, const std::vector<Dims>& first, uint64_t seed,
                                        int64_t adapters = 0);

/// `symbols`, with `size` for those of the inputs' first axes that are free.
SymbolBindings with_first_axes(const Graph& model, const SymbolBindings& symbols, int64_t size);

/// The values of the symbols in the shapes of the inputs.
SymbolBindings bind_inputs(const Graph& model, const std::vector<Dims>& shapes);

/// Whether the sizes alone tell that an output is empty, as where windows over a length do not fit once: nothing would
/// be compared there.
bool has_empty_output(const Graph& model, const std::vector<Dims>& shapes);

/// "seed 3, x: [1, 3, 224, 224], mask: [1, 77], …"
std::string describe_sample(const Graph& model, const std::vector<Dims>& shapes, uint64_t seed);

/// How much work a run is on these shapes, in operations; a byte counts as four. What only running can tell counts
/// nothing.
double work_of(const Graph& model, const std::vector<Dims>& shapes);

}  // namespace camshaft
