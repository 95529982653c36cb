#include "backends/cpu/passes/store_rounded.h"

#include <algorithm>

#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/region.h"
#include "ir/region_editor.h"

namespace camshaft {

namespace {

// Shorter rows are stems', whose kernels read images of f32.
constexpr int64_t least_row = 16;

bool is_row(const Graph& graph, ValueId id) {
  const Shape& shape = graph.shape(id);
  const auto size = shape.empty() ? std::nullopt : shape.back().as_constant();
  return size && *size >= least_row && *size % 2 == 0;
}

// The product of a node, or of a region that begins with it.
const Node* product_of(const Node& node) {
  const auto* region = node.op.as<ops::Region>();
  if (!region) return &node;
  if (region->kind != ops::RegionKind::contract || node.bodies[0].nodes.empty()) return nullptr;
  return &node.bodies[0].nodes[0];
}

// The operand of a product that rounds it; no_value where the node is no such product, or has no kernel for rounded
// rows. An operand that the node reads elsewhere, too, is read as it is.
ValueId rounded_operand(const Graph& graph, const Node& node) {
  const Node* product = product_of(node);
  if (!product || product->inputs.size() < 2) return no_value;
  const bool in_region = product != &node;
  const auto outer = [&](ValueId id) {
    if (!in_region || id == no_value) return id;
    const std::vector<ValueId>& inputs = node.bodies[0].inputs;
    const auto found = std::find(inputs.begin(), inputs.end(), id);
    return found == inputs.end() ? no_value : node.inputs[static_cast<size_t>(found - inputs.begin())];
  };
  const ValueId x = outer(product->inputs[0]), weights = outer(product->inputs[1]);
  if (x == no_value || weights == no_value || !graph.is_constant(weights)) return no_value;
  if (graph.type(weights).dtype != DType::f32 || graph.type(x).dtype != DType::f32 || !is_row(graph, x))
    return no_value;
  if (const auto* matmul = product->op.as<ops::MatMul>()) {
    const Shape& b = graph.shape(weights);
    const bool one = std::all_of(b.begin(), b.end() - 2, [](const Dim& d) { return d == Dim(1); });
    if (matmul->rounding != ops::Rounding::bf16 || matmul->transpose_a || !one) return no_value;
  } else if (const auto* conv = product->op.as<ops::Conv>()) {
    if (conv->rounding != ops::Rounding::bf16 || !conv->channels_last || conv->groups != 1) return no_value;
    if (graph.shape(x).size() > 5) return no_value;
  } else {
    return no_value;
  }
  if (!in_region) return x;
  size_t reads = 0;
  for (const Node& inner : node.bodies[0].nodes)
    for (const ValueId id : inner.inputs) reads += id == product->inputs[0] ? 1 : 0;
  const std::vector<ValueId>& results = node.bodies[0].outputs;
  return reads == 1 && std::find(results.begin(), results.end(), product->inputs[0]) == results.end() ? x : no_value;
}

bool is_pointwise(const Node& node) {
  const auto* region = node.op.as<ops::Region>();
  return region ? region->kind == ops::RegionKind::pointwise : node.op.traits().kind == OpKind::pointwise;
}

class Storing {
 public:
  Storing(Graph& graph, const PassContext& context) : graph_(graph), context_(context), uses_(graph) {}

  void run() {
    for (const Node& node : graph_.nodes) rounded_operands_.push_back(rounded_operand(graph_, node));
    stored_.assign(graph_.values.size(), false);
    for (size_t n = 0; n < graph_.nodes.size(); ++n)
      for (const ValueId id : graph_.nodes[n].outputs) stored_[static_cast<size_t>(id)] = writes(n) && is_rounded(id);
    for (size_t n = 0; n < graph_.nodes.size(); ++n) rewrite(n);
  }

 private:
  bool is_stored(ValueId id) const { return id != no_value && stored_[static_cast<size_t>(id)]; }

  // Whether a node can write a result of bf16.
  bool writes(size_t n) const {
    const Node& node = graph_.nodes[n];
    if (context_.rules && !context_.rules->allows(node.sources, LayerPrecision::bf16)) return false;
    return is_pointwise(node) || (node.outputs.size() == 1 && rounded_operands_[n] != no_value);
  }

  bool is_rounded(ValueId id) const {
    const std::vector<int32_t>& readers = uses_.readers[static_cast<size_t>(id)];
    if (readers.empty() || uses_.is_output[static_cast<size_t>(id)] || graph_.type(id).dtype != DType::f32 ||
        (context_.keep_f32 && context_.keep_f32->contains(graph_.value(id).name)))
      return false;
    return std::all_of(readers.begin(), readers.end(), [&](int32_t reader) {
      const Node& node = graph_.nodes[static_cast<size_t>(reader)];
      return rounded_operands_[static_cast<size_t>(reader)] == id &&
             std::count(node.inputs.begin(), node.inputs.end(), id) == 1;
    });
  }

  void rewrite(size_t n) {
    Node& node = graph_.nodes[n];
    const std::vector<ValueId> results = node.outputs;
    const bool gives = std::any_of(results.begin(), results.end(), [&](ValueId id) { return is_stored(id); });
    if (!gives && !(node.op.as<ops::Region>() && is_stored(rounded_operands_[n]))) return;
    RegionEditor editor =
        RegionEditor::around(graph_, node, is_pointwise(node) ? ops::RegionKind::pointwise : ops::RegionKind::contract);
    for (const ValueId id : results) {
      if (!is_stored(id)) continue;
      const ValueId inner = editor.inner_result(id);
      editor.replace_result(id, editor.add(ops::Cast{.to = DType::bf16}, {inner}, graph_.value(id).name));
    }
    node = editor.finish();
  }

  Graph& graph_;
  const PassContext& context_;
  const Uses uses_;
  std::vector<ValueId> rounded_operands_;  // of each node
  std::vector<bool> stored_;               // of each value
};

}  // namespace

void store_rounded(Graph& graph, const PassContext& context) {
  if (context.rounding == ops::Rounding::bf16) Storing(graph, context).run();
}

}  // namespace camshaft
