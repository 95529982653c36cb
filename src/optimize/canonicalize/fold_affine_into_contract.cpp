#include "optimize/canonicalize/fold_affine_into_contract.h"

#include <algorithm>
#include <cmath>

#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/replaceable.h"
#include "ir/rewriter.h"
#include "optimize/analysis/channel_affine.h"
#include "optimize/analysis/match.h"
#include "optimize/analysis/score_path.h"
#include "reference/derived_constant.h"
#include "reference/element_io.h"

namespace camshaft {

namespace {

using F = ScalarFunction;

// How weights are stored: which channels their first two axes are. In groups the second axis has those of one group.
struct WeightLayout {
  int64_t inputs = 0, outputs = 0;
  int64_t groups = 1;
  bool inputs_first = false;
};

std::optional<WeightLayout> weight_layout(const Node& node, const Tensor& weights) {
  const Dims& d = weights.dims();
  if (weights.size() == 0) return std::nullopt;  // beside a size of 0 there may be channels without number
  if (const auto* matmul = node.op.as<ops::MatMul>()) {
    if (d.size() != 2 || matmul->transpose_a) return std::nullopt;
    if (matmul->transpose_b) return WeightLayout{d[1], d[0], 1, false};
    return WeightLayout{d[0], d[1], 1, true};
  }
  if (d.size() < 3) return std::nullopt;
  if (const auto* conv = node.op.as<ops::Conv>()) return WeightLayout{d[1] * conv->groups, d[0], conv->groups, false};
  const int64_t groups = node.op.as<ops::ConvTranspose>()->groups;
  return WeightLayout{d[0], d[1] * groups, groups, true};
}

bool is_unpadded(const Node& node) {
  const auto* conv = node.op.as<ops::Conv>();
  return conv && std::all_of(conv->pads.begin(), conv->pads.end(), [](const Dim& d) { return d == Dim(0); });
}

// The largest finite number of a weight's type: folding must not make infinities.
double largest(DType dtype) {
  return dtype == DType::f16 ? 65504 : dtype == DType::f64 ? 0x1p1000 : 0x1p127;
}

// Weights that are all smaller are lost to f16, whose steps are 2^-24 there: they would keep their layer in f32. Behind
// the sums a factor of 1e-5 for each channel, with which scales of residual branches begin, costs nothing.
constexpr double least = 0x1p-11;
bool are_small(const Tensor& weights) {
  std::vector<double> values(static_cast<size_t>(weights.size()));
  ops::load_elements(weights.dtype(), weights.data(), 0, 1, weights.size(), values.data());
  return std::all_of(values.begin(), values.end(), [](double v) { return std::abs(v) < least; });
}

class AffineFolder {
 public:
  AffineFolder(Graph& graph, const PassContext& context)
      : graph_(graph),
        context_(context),
        uses_(graph),
        rewriter_(graph),
        producers_(graph),
        dropped_(rewriter_.nodes().size(), false) {}

  void run() {
    for (size_t n = 0; n < rewriter_.nodes().size(); ++n) {
      Node& node = rewriter_.nodes()[n];
      if (dropped_[n]) continue;
      if (!fold(node)) rewriter_.keep(std::move(node));
    }
    rewriter_.finish();
  }

 private:
  static size_t channel_axis(const Node& node, size_t rank) {
    if (const auto* conv = node.op.as<ops::Conv>()) return conv->channels_last ? rank - 1 : 1;
    if (const auto* conv = node.op.as<ops::ConvTranspose>()) return conv->channels_last ? rank - 1 : 1;
    return rank - 1;
  }

  Constant derived(F function, const std::vector<Constant>& operands) const {
    return derive(function, operands, context_.pool);
  }
  // The steps behind `last`, which moves on to their result. Their nodes are added to `taken`.
  std::vector<ChannelStep> follow(const Node& node, ValueId& last, int64_t channels, bool may_shift,
                                  std::vector<size_t>& taken) {
    std::vector<ChannelStep> steps;
    const size_t axis = channel_axis(node, graph_.shape(last).size());
    while (uses_.single(last)) {
      const auto reader = static_cast<size_t>(uses_.readers[static_cast<size_t>(last)][0]);
      const Node& next = old(reader);
      const auto step = channel_step(graph_, next, axis, channels);
      if (!step || step->operand != last || (step->shifts && !may_shift)) break;
      steps.push_back(*step);
      last = next.outputs[0];
      taken.push_back(reader);
    }
    return steps;
  }

  // The steps before `first`, which moves back to what they read.
  std::vector<ChannelStep> trace_back(const Node& node, ValueId& first, int64_t channels, bool may_shift,
                                      std::vector<std::string>& sources) {
    std::vector<ChannelStep> steps;
    const ValueId original = first;
    if (node.op.as<ops::ConvTranspose>()) return steps;
    const size_t axis = channel_axis(node, graph_.shape(first).size());
    // What this pass added has no recorded uses; what it replaced has no producer any more.
    while (static_cast<size_t>(first) < uses_.readers.size() && uses_.single(first)) {
      const Node* before = producers_.find(first);
      if (!before) break;
      const auto step = channel_step(graph_, *before, axis, channels);
      if (!step || (step->shifts && !may_shift)) break;
      steps.insert(steps.begin(), *step);
      sources = merged_sources(before->sources, sources);
      first = step->operand;
    }
    // Behind another pointwise operator the steps cost next to nothing, as part of its region, while new weights cost
    // build time and memory (the ½ of gelu: 300 ms and 113 MB of a BERT).
    const Node* rest = producers_.find(first);
    if (first != original && rest && (rest->op.as<ops::Pointwise>() || rest->op.as<ops::Cast>())) {
      first = original;
      sources = node.sources;
      return {};
    }
    return steps;
  }

  const Node& old(size_t n) { return rewriter_.nodes()[n]; }

  bool fold(Node& node) {
    const bool is_matmul = node.op.as<ops::MatMul>() != nullptr;
    if (!is_matmul && !node.op.as<ops::Conv>() && !node.op.as<ops::ConvTranspose>()) return false;
    if (is_matmul && !graph_.is_constant(node.inputs[0]) && !graph_.is_constant(node.inputs[1]))
      return move_factors_behind(node);
    const bool has_bias = node.inputs.size() > 2 && node.inputs[2] != no_value;
    if (!is_readable_constant(graph_, node.inputs[1]) || (has_bias && !is_readable_constant(graph_, node.inputs[2])))
      return false;
    const Tensor weights = *graph_.value(node.inputs[1]).constant;
    if (!is_floating(weights.dtype()) || bit_width(weights.dtype()) < 16) return false;
    const auto layout = weight_layout(node, weights);
    if (!layout) return false;

    std::vector<size_t> taken;
    std::vector<std::string> sources = node.sources;
    ValueId last = node.outputs[0], first = node.inputs[0];
    const std::vector<ChannelStep> behind = follow(node, last, layout->outputs, !is_matmul, taken);
    const std::vector<ChannelStep> in_front = trace_back(node, first, layout->inputs, is_unpadded(node), sources);
    if (taken.empty() && first == node.inputs[0]) return false;
    const ChannelAffine after = composed(graph_, behind, context_.pool),
                        before = composed(graph_, in_front, context_.pool);

    const double limit = largest(weights.dtype());
    Constant bias = has_bias ? derive_cast(graph_.constant(node.inputs[2]), DType::f64, context_.pool) : Constant{};
    if (shifts(before))
      bias = added(bias, sum_of_shifts(graph_.constant(node.inputs[1]), *layout, before.shift), context_.pool);
    if (bias.tensor) bias = multiplied(bias, after.scale, context_.pool);
    bias = added(bias, after.shift, context_.pool);
    const bool needs_bias = has_bias || has_other_than(bias, 0);
    if (needs_bias) {
      bias = for_each_channel(bias, layout->outputs, context_.pool);
      const auto* b = bias.tensor->as<double>();
      if (!may_be_replaced(bias.provenance) &&
          !std::all_of(b, b + layout->outputs, [&](double x) { return std::abs(x) < limit; }))
        return false;
    }

    std::vector<ValueId> inputs{rewriter_.resolve(first), node.inputs[1]};
    if (scales(after) || scales(before)) {
      const ConstantProduct scaled = scale_weights(node, graph_.constant(node.inputs[1]), *layout, before, after);
      if (!may_be_replaced(scaled.constant.provenance) &&
          (!(scaled.largest < limit) || (scaled.largest < least && !are_small(weights))))
        return false;
      inputs[1] = graph_.add_constant(graph_.value(node.inputs[1]).name, scaled.constant);
    }
    if (needs_bias)
      inputs.push_back(graph_.add_constant(graph_.value(node.outputs[0]).name + ".bias",
                                           derive_cast(bias, weights.dtype(), context_.pool)));
    for (const size_t n : taken) {
      sources = merged_sources(sources, old(n).sources);
      dropped_[n] = true;
    }
    rewriter_.replace(last, graph_.add(node.op, inputs, graph_.value(last).name, sources));
    return true;
  }

  // What an operand of a product was before it was multiplied by one number. PyTorch has reshapes behind that, as its
  // products take three axes.
  struct Unscaled {
    ChannelStep step;
    std::vector<std::string> sources;  // of the step
    std::vector<Node> moves;           // behind it
  };
  std::optional<Unscaled> unscaled(ValueId id) {
    Unscaled found;
    for (;;) {
      if (static_cast<size_t>(id) >= uses_.readers.size() || !uses_.single(id)) return std::nullopt;
      const Node* before = producers_.find(id);
      if (!before) return std::nullopt;
      if (only_reshapes(*before) || before->op.as<ops::Transpose>()) {
        found.moves.insert(found.moves.begin(), *before);
        id = before->inputs[0];
        continue;
      }
      const auto step = channel_step(graph_, *before, graph_.shape(id).size() - 1, 1);
      if (!step || step->shifts) return std::nullopt;
      found.step = *step;
      found.sources = before->sources;
      return found;
    }
  }

  // (a·s) × (b·t) = (a × b)·(s·t): one factor in the epilogue instead of one pass over each operand.
  bool move_factors_behind(const Node& node) {
    const TensorType type = graph_.type(node.outputs[0]);
    if (type.dtype != DType::f32 && type.dtype != DType::f64) return false;
    const std::optional<Unscaled> before[] = {unscaled(node.inputs[0]), unscaled(node.inputs[1])};
    std::vector<std::string> sources = node.sources;
    Constant factor = literal(Tensor::scalar(DType::f64, 1).reshaped({1}));
    for (const auto& operand : before) {
      if (!operand) continue;
      factor = multiplied(factor, composed(graph_, {operand->step}, context_.pool).scale, context_.pool);
      sources = merged_sources(operand->sources, sources);
    }
    fix_numbers(factor.provenance, "a factor that is applied behind a product");
    const double value = std::abs(factor.tensor->as<double>()[0]);
    if (!(before[0] || before[1]) || !(value > 0x1p-60 && value < 0x1p60)) return false;
    std::vector<ValueId> inputs;
    for (const size_t i : {size_t{0}, size_t{1}}) {
      ValueId id = rewriter_.resolve(before[i] ? before[i]->step.operand : node.inputs[i]);
      if (before[i])
        for (const Node& move : before[i]->moves)
          id = graph_.add(move.op, {id}, graph_.value(move.outputs[0]).name + ".unscaled", move.sources);
      inputs.push_back(id);
    }
    const std::string name = graph_.value(node.outputs[0]).name;
    const ValueId product = graph_.add(node.op, inputs, name + ".unscaled", sources);
    const ValueId scale =
        graph_.add_constant("c", derive_cast(derive_reshaped(factor, {}, context_.pool), type.dtype, context_.pool));
    rewriter_.replace(node.outputs[0], graph_.add(ops::Pointwise{F::mul}, {product, scale}, name, sources));
    return true;
  }

  // Σ weights[o, i, …]·shift[i] of each output channel of a convolution, in f64.
  Constant sum_of_shifts(const Constant& weights, const WeightLayout& layout, const Constant& shift) const {
    const int64_t g = layout.groups, in = layout.inputs / g, out = layout.outputs / g;
    const Constant by_group = derive_reshaped(derive_cast(weights, DType::f64, context_.pool),
                                              {g, out, in, weights.tensor->size() / (g * out * in)}, context_.pool);
    const Constant shifts =
        derive_reshaped(for_each_channel(shift, layout.inputs, context_.pool), {g, 1, in, 1}, context_.pool);
    const ops::Reduce sum{ops::ReduceKind::sum, {2, 3}, false};
    return derive_reshaped(derive(sum, {derived(F::mul, {by_group, shifts})}, context_.pool), {layout.outputs},
                           context_.pool);
  }

  // Numbers of each input or output channel in a shape that broadcasts to that of the weights.
  Constant along_weights(const Constant& numbers, bool of_inputs, const WeightLayout& layout, const Dims& dims) const {
    const int64_t g = layout.groups;
    const Constant each = for_each_channel(numbers, of_inputs ? layout.inputs : layout.outputs, context_.pool);
    Dims shape(dims.size(), 1);
    if (of_inputs == layout.inputs_first) {
      shape[0] = dims[0];
    } else if (g == 1) {
      shape[1] = dims[1];
    } else {
      shape[0] = dims[0];
      shape[1] = dims[1];
      const Constant by_group = derive_reshaped(each, {g, 1, dims[1]}, context_.pool);
      return derive_reshaped(derive(ops::Expand{{g, dims[0] / g, dims[1]}}, {by_group}, context_.pool), shape,
                             context_.pool);
    }
    return derive_reshaped(each, shape, context_.pool);
  }

  ConstantProduct scale_weights(const Node& node, const Constant& weights, const WeightLayout& layout,
                                const ChannelAffine& before, const ChannelAffine& after) const {
    const Dims& dims = weights.tensor->dims();
    Constant of_inputs, of_outputs;
    if (scales(before)) of_inputs = along_weights(before.scale, true, layout, dims);
    if (scales(after)) of_outputs = along_weights(after.scale, false, layout, dims);
    std::vector<Constant> factors;
    if (node.op.as<ops::MatMul>() && of_inputs.tensor && of_outputs.tensor) {
      // One by one: a table of both would be as large as the weights.
      factors = layout.inputs_first ? std::vector{of_outputs, of_inputs} : std::vector{of_inputs, of_outputs};
    } else {
      factors = {multiplied(of_inputs, of_outputs, context_.pool)};
    }
    return derive_product(weights, factors, context_.pool);
  }

  Graph& graph_;
  const PassContext& context_;
  Uses uses_;
  Rewriter rewriter_;
  Producers producers_;
  std::vector<bool> dropped_;
};

}  // namespace

void fold_affine_into_contract(Graph& graph, const PassContext& context) {
  AffineFolder(graph, context).run();
}

}  // namespace camshaft
