#include "builder/model_types.h"

#include <algorithm>
#include <map>

#include "ir/ops/contraction.h"
#include "ir/ops/pointwise.h"

namespace camshaft {

namespace {

bool is_half(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16;
}

// What the products of the graph and its bodies read, how often.
void count_products(const Graph& graph, std::map<DType, int64_t>& count) {
  for (const Node& node : graph.nodes) {
    if (ops::is_contraction(node.op)) ++count[graph.type(node.inputs[0]).dtype];
    for (const Graph& body : node.bodies) count_products(body, count);
  }
}

bool makes_halves(const Node& node) {
  const auto* cast = node.op.as<ops::Cast>();
  return cast && is_half(cast->to);
}

}  // namespace

DType stored_type(const Graph& model) {
  std::map<DType, int64_t> count;
  count_products(model, count);
  for (const DType half : {DType::f16, DType::bf16})
    if (count[half] > count[DType::f32] && count[half] >= count[half == DType::f16 ? DType::bf16 : DType::f16])
      return half;
  return DType::f32;
}

BuildOptions with_types_of(BuildOptions options, const Graph& model, const Backend& backend) {
  if (options.fp16 || options.bf16 || options.strongly_typed) return options;
  const DType stored = stored_type(model);
  if (stored == DType::f32 || !backend.gains_from(stored)) return options;
  (stored == DType::f16 ? options.fp16 : options.bf16) = true;
  return options;
}

WideParts wide_parts(const Graph& model) {
  WideParts parts;
  if (stored_type(model) == DType::f32) return parts;
  const Uses uses(model);
  for (const Node& node : model.nodes) {
    if (node.outputs.empty() || model.type(node.outputs[0]).dtype != DType::f32) continue;
    // Not those of attention, whose kernels sum in f32 and keep scores to themselves, or else store what is named
    // below.
    const bool has_weights = std::any_of(node.inputs.begin(), node.inputs.end(),
                                         [&](ValueId id) { return id != no_value && model.is_constant(id); });
    if (ops::is_contraction(node.op) && has_weights)
      for (const std::string& source : node.sources) parts.products.push_back({source, LayerPrecision::fp32});
    if (node.op.as<ops::Cast>()) continue;  // has the bits of a half, if it is of one
    for (const ValueId id : node.outputs) {
      const auto& readers = uses.readers[static_cast<size_t>(id)];
      if (std::any_of(readers.begin(), readers.end(),
                      [&](int32_t n) { return !makes_halves(model.nodes[static_cast<size_t>(n)]); }))
        parts.values.insert(model.value(id).name);
    }
  }
  return parts;
}

}  // namespace camshaft
