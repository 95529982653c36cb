#include "onnx/export/joined_nodes.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/quantize.h"
#include "ir/ops/quantized.h"
#include "onnx/export/joined_lookups.h"
#include "onnx/export/joined_moves.h"
#include "onnx/export/joined_reductions.h"

namespace camshaft::onnx {

namespace {

using F = ScalarFunction;

class JoinFinder {
 public:
  JoinFinder(const Graph& graph, const Uses& uses) : graph_(graph), uses_(uses) {}

  /// a·b + c of matrices.
  std::optional<JoinedNodes> gemm(size_t last) const {
    const Node& sum = graph_.nodes[last];
    if (!is(sum, F::add)) return std::nullopt;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const auto producer = inner(sum.inputs[i]);
      if (!producer) continue;
      const Node& node = graph_.nodes[*producer];
      const auto* product = node.op.as<ops::MatMul>();
      const ValueId bias = sum.inputs[1 - i];
      if (!product || !is_gemm(node) || !broadcasts(bias, graph_.shape(sum.inputs[i])) ||
          graph_.shape(sum.outputs[0]) != graph_.shape(sum.inputs[i]))
        continue;
      Attributes attributes;
      if (product->transpose_a) attributes.integer("transA", 1);
      if (product->transpose_b) attributes.integer("transB", 1);
      const std::vector<ValueId> operands{node.inputs[0], node.inputs[1], bias};
      return JoinedNodes{{*producer, last}, false, [operands, attributes](ExportContext& c) {
                           std::vector<std::string> inputs;
                           for (const ValueId id : operands) inputs.push_back(c.value(id));
                           c.result("Gemm", std::move(inputs), attributes);
                         }};
    }
    return std::nullopt;
  }

  /// x·scale + shift, one number for each channel: what training leaves of a batch normalisation that no convolution
  /// takes in. Mean 0 and variance 1 with an epsilon of 0 change no bit.
  std::optional<JoinedNodes> batch_normalization(size_t last) const {
    const Node& sum = graph_.nodes[last];
    if (!is(sum, F::add) || graph_.type(sum.outputs[0]).dtype != DType::f32) return std::nullopt;
    const Shape& shape = graph_.shape(sum.outputs[0]);
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const auto producer = inner(sum.inputs[i]);
      const auto shift = producer ? for_channels(sum.inputs[1 - i], shape) : std::nullopt;
      if (!shift || !is(graph_.nodes[*producer], F::mul)) continue;
      const std::vector<ValueId>& factors = graph_.nodes[*producer].inputs;
      for (const size_t j : {size_t{0}, size_t{1}}) {
        const auto scale = for_channels(factors[1 - j], shape);
        const ValueId x = factors[j];
        if (!scale || graph_.is_constant(x) || graph_.shape(x) != shape) continue;
        return JoinedNodes{{*producer, last}, false, [x, scale = *scale, shift = *shift](ExportContext& c) {
                             const Tensor zeros(DType::f32, scale.dims());
                             const std::vector<float> ones(static_cast<size_t>(scale.size()), 1.0F);
                             const std::string variance = c.constant(Tensor::of<float>(DType::f32, scale.dims(), ones));
                             c.result("BatchNormalization",
                                      {c.value(x), c.constant(scale), c.constant(shift), c.constant(zeros), variance},
                                      Attributes().number("epsilon", 0));
                           }};
      }
    }
    return std::nullopt;
  }

 private:
  static bool is(const Node& node, F function) {
    const auto* op = node.op.as<ops::Pointwise>();
    return op && op->function == function;
  }
  /// The node that computes a value which nothing else reads.
  std::optional<size_t> inner(ValueId id) const {
    const int32_t producer = id == no_value ? -1 : uses_.producer[static_cast<size_t>(id)];
    return producer >= 0 && uses_.single(id) ? std::optional(static_cast<size_t>(producer)) : std::nullopt;
  }

  /// Runtimes compute products on integers where they find the steps right at a MatMul.
  bool is_gemm(const Node& node) const {
    for (const ValueId id : node.inputs) {
      if (graph_.shape(id).size() != 2 || !is_gemm_type(graph_.type(id).dtype)) return false;
      const int32_t producer = uses_.producer[static_cast<size_t>(id)];
      if (producer >= 0 && graph_.nodes[static_cast<size_t>(producer)].op.as<ops::Dequantize>()) return false;
    }
    return true;
  }
  bool broadcasts(ValueId id, const Shape& to) const {
    const Shape& from = graph_.shape(id);
    if (from.size() > to.size()) return false;
    for (size_t i = 0; i < from.size(); ++i)
      if (from[from.size() - 1 - i] != Dim(1) && from[from.size() - 1 - i] != to[to.size() - 1 - i]) return false;
    return true;
  }

  /// A constant with one number for each channel (axis 1) of a tensor of this shape, as a list.
  std::optional<Tensor> for_channels(ValueId id, const Shape& shape) const {
    const Tensor* constant = graph_.value(id).constant.get();
    if (!constant || constant->is_elided() || shape.size() < 2) return std::nullopt;
    const auto channels = shape[1].as_constant();
    const Dims& dims = constant->dims();
    if (!channels || *channels != constant->size() || dims.size() > shape.size()) return std::nullopt;
    for (size_t i = 0; i < dims.size(); ++i)
      if (const size_t axis = shape.size() - dims.size() + i; dims[i] != (axis == 1 ? *channels : 1))
        return std::nullopt;
    // Reading a batch normalisation multiplies the mean, which is 0, by the scale.
    const std::vector<double> numbers = constant->to_doubles();
    if (!std::all_of(numbers.begin(), numbers.end(), [](double number) { return std::isfinite(number); }))
      return std::nullopt;
    return constant->reshaped({*channels});
  }

  const Graph& graph_;
  const Uses& uses_;
};

}  // namespace

bool is_gemm_type(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::f16 || dtype == DType::bf16;
}

JoinedNodesOf::JoinedNodesOf(const Graph& graph, const std::function<bool(size_t node)>& is_taken,
                             std::vector<JoinedNodes> whole) {
  const Uses uses(graph);
  const JoinFinder finder(graph, uses);
  const auto is_free = [&](size_t n) { return !is_taken(n) && !by_node_.contains(n); };
  for (JoinedNodes& joined : whole) {
    if (joined.nodes.size() == 2 && finder.gemm(joined.nodes.back())) continue;  // LinearRegressor: a Gemm is as short
    if (std::all_of(joined.nodes.begin(), joined.nodes.end(), is_free)) add(std::move(joined));
  }
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    auto joined = finder.gemm(n);
    if (!joined) joined = finder.batch_normalization(n);
    if (!joined) joined = join_gather(graph, uses, n);
    if (!joined) joined = join_blocks(graph, uses, n);
    if (!joined) joined = join_length(graph, uses, n);
    if (!joined) joined = join_log_sum_exp(graph, uses, n);
    if (!joined) joined = join_one_hot(graph, uses, n);
    if (!joined) joined = join_lookups(graph, uses, n);
    if (joined && std::all_of(joined->nodes.begin(), joined->nodes.end(), is_free)) add(*std::move(joined));
  }
  for (JoinedNodes& split : join_splits(graph, is_free)) add(std::move(split));
}

void JoinedNodesOf::add(JoinedNodes joined) {
  for (const size_t n : joined.nodes) by_node_.emplace(n, all_.size());
  all_.push_back(std::move(joined));
}

const JoinedNodes* JoinedNodesOf::find(size_t n) const {
  const auto found = by_node_.find(n);
  return found == by_node_.end() ? nullptr : &all_[found->second];
}

}  // namespace camshaft::onnx
