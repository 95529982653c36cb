#include "compile/layer_name.h"

#include <fmt/format.h>

namespace camshaft {

std::string layer_name(const std::string& name, const std::vector<std::string>& sources) {
  if (sources.empty()) return fmt::format("layer '{}'", name);
  return fmt::format("layer '{}' (from node '{}')", name, sources.front());
}

std::string layer_name(const RegionView& region) {
  return layer_name(region.graph.value(region.node.outputs[0]).name, region.node.sources);
}

}  // namespace camshaft
