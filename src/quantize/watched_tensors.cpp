#include "quantize/watched_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string_view>

#include "base/error.h"
#include "ir/ops/index_map.h"
#include "ir/ops/move.h"

namespace camshaft {

namespace {

bool is_permutation_of(const ops::IndexMap& map, const Shape& source) {
  if (map.wraps || map.along.size() != source.size()) return false;
  std::set<int64_t> axes;
  for (size_t a = 0; a < map.along.size(); ++a) {
    const int64_t along = map.along[a];
    if (along < 0 || map.steps[a] != 1 || !axes.insert(along).second) return false;
    if (!(map.shape[a] == source[static_cast<size_t>(along)])) return false;
  }
  return std::all_of(map.starts.begin(), map.starts.end(), [](const Dim& start) { return start == Dim(0); });
}

/// Whether a node's result has the elements of its first operand, each once; then `axes` of the result become those of
/// the operand, or none where they were split or merged.
bool keeps_elements(const Graph& graph, const Node& node, std::vector<int64_t>& axes) {
  if (node.inputs.empty() || node.inputs[0] == no_value || graph.is_constant(node.inputs[0])) return false;
  if (node.op.as<ops::Reshape>()) {
    axes.clear();
    return true;
  }
  const auto* transpose = node.op.as<ops::Transpose>();
  const auto* map = node.op.as<ops::IndexMap>();
  if (!transpose && !(map && is_permutation_of(*map, graph.shape(node.inputs[0])))) return false;
  for (int64_t& axis : axes) axis = (transpose ? transpose->permutation : map->along)[static_cast<size_t>(axis)];
  return true;
}

/// Names of values that are read by a node or that are outputs.
std::set<std::string_view> used_values(const Graph& graph) {
  std::set<std::string_view> used;
  for (const Node& node : graph.nodes)
    for (const ValueId id : node.inputs)
      if (id != no_value) used.insert(graph.value(id).name);
  for (const ValueId id : graph.outputs) used.insert(graph.value(id).name);
  return used;
}

}  // namespace

WatchedTensors::WatchedTensors(Graph& graph, std::vector<std::string> tensors)
    : tensors_(std::move(tensors)), own_outputs_(graph.outputs.size()) {
  std::map<std::string, ValueId> ids;
  for (size_t v = 0; v < graph.values.size(); ++v) ids[graph.values[v].name] = static_cast<ValueId>(v);
  std::set<std::string> names(graph.output_names.begin(), graph.output_names.end());
  for (const std::string& tensor : tensors_) {
    const auto found = ids.find(tensor);
    if (found == ids.end())
      throw Error(ErrorCode::invalid_argument, fmt::format("the model has no tensor named '{}' to watch", tensor));
    const auto own = std::find(graph.outputs.begin(), graph.outputs.end(), found->second);
    outputs_.push_back(static_cast<size_t>(own - graph.outputs.begin()));
    if (own != graph.outputs.end()) continue;
    std::string name = tensor;
    while (!names.insert(name).second) name += '_';
    graph.add_output(name, found->second);
  }
}

std::vector<WatchedValue> WatchedTensors::settle(Graph& graph) const {
  const Uses uses(graph);
  std::vector<ValueId> bases;
  std::vector<std::vector<int64_t>> axes;
  for (const size_t output : outputs_) {
    ValueId id = graph.outputs[output];
    axes.emplace_back(graph.shape(id).size());
    std::iota(axes.back().begin(), axes.back().end(), 0);
    for (int32_t node = uses.producer[static_cast<size_t>(id)]; node >= 0;
         node = uses.producer[static_cast<size_t>(id)]) {
      const Node& mover = graph.nodes[static_cast<size_t>(node)];
      if (!keeps_elements(graph, mover, axes.back())) break;
      id = mover.inputs[0];
    }
    bases.push_back(id);
  }

  Graph without = graph;
  without.outputs.resize(own_outputs_);
  without.output_names.resize(own_outputs_);
  remove_dead(without);
  const std::set<std::string_view> used = used_values(without);

  std::vector<WatchedValue> watched;
  std::map<ValueId, size_t> known;
  std::vector<ValueId> kept_outputs;
  std::vector<std::string> kept_names;
  for (size_t t = 0; t < tensors_.size(); ++t) {
    const ValueId base = bases[t];
    const auto [at, is_new] = known.try_emplace(base, watched.size());
    if (is_new) {
      const auto input = std::find(graph.inputs.begin(), graph.inputs.end(), base);
      const bool is_input = input != graph.inputs.end();
      const std::string& name = graph.value(base).name;
      watched.push_back({name, {}, is_input ? static_cast<int32_t>(input - graph.inputs.begin()) : -1});
      if (!is_input && !used.contains(name)) {
        kept_outputs.push_back(base);
        kept_names.push_back(graph.output_names[outputs_[t]]);
      }
    }
    watched[at->second].tensors.push_back({tensors_[t], std::move(axes[t])});
  }
  graph.outputs.resize(own_outputs_);
  graph.output_names.resize(own_outputs_);
  graph.outputs.insert(graph.outputs.end(), kept_outputs.begin(), kept_outputs.end());
  graph.output_names.insert(graph.output_names.end(), kept_names.begin(), kept_names.end());
  remove_dead(graph);
  return watched;
}

}  // namespace camshaft
