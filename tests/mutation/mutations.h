// Models with one thing wrong: what a faulty pass, kernel or packing would make of the right one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "ir/graph.h"

namespace camshaft::mutation {

enum class Kind {
  sign,         ///< of the weights at one index of one axis
  row_shift,    ///< each row of a weight lies where the next one should
  tail,         ///< the last sixteenth of a weight's rows, or one, is 0
  axis_swap,    ///< the last two axes of a weight, where they are equal
  stale_scale,  ///< the numbers of a bias or scale, or a factor, are a quarter too large
  epilogue,     ///< a pointwise step is left out
  window,       ///< a convolution's or pooling's padding is one off
  mask,         ///< a comparison takes its bound for within, or the other way round; a constant mask lies one off
  unwritten,    ///< the last sixteenth of each row of a product, or one element, is 0
};
constexpr Kind all_kinds[] = {Kind::sign,     Kind::row_shift, Kind::tail, Kind::axis_swap, Kind::stale_scale,
                              Kind::epilogue, Kind::window,    Kind::mask, Kind::unwritten};
std::string_view to_string(Kind kind);

struct Mutant {
  Graph graph;
  std::string what;  ///< "sign of 'conv1.weight', index 3 of axis 0"
};

/// The graph with one thing wrong of that kind, in it or in a body, drawn at random; nullopt where nothing of that kind
/// was found.
std::optional<Mutant> mutate(const Graph& graph, Kind kind, Random& random);

}  // namespace camshaft::mutation
