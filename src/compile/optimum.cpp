#include "compile/optimum.h"

#include <algorithm>

namespace camshaft {

double size_at_optimum(const RegionView& region, const Dim& dim) {
  if (const auto size = dim.as_constant()) return static_cast<double>(*size);
  SymbolBindings symbols = region.symbols;
  std::vector<std::string> names;
  dim.collect_symbols(names);
  for (const std::string& n : names) symbols.try_emplace(n, 1);
  try {
    // A profile may name any number: what is converted back to an integer must fit one.
    return static_cast<double>(std::clamp<int64_t>(dim.evaluate(symbols), 0, most_tensor_elements));
  } catch (const Error&) {
    return 1;  // symbols that no profile names are guesses, and may contradict each other
  }
}

double elements_at_optimum(const RegionView& region, ValueId id) {
  double count = 1;
  for (const Dim& d : region.graph.shape(id)) count *= size_at_optimum(region, d);
  return count;
}

double bytes_at_optimum(const RegionView& region) {
  double bytes = 0;
  for (const auto* ids : {&region.node.inputs, &region.node.outputs})
    for (const ValueId id : *ids)
      if (id != no_value && !holds_objects(region.graph.type(id).dtype))
        bytes += elements_at_optimum(region, id) * bit_width(region.graph.type(id).dtype) / 8;
  return bytes;
}

}  // namespace camshaft
