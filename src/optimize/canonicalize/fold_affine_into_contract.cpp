#include "optimize/canonicalize/fold_affine_into_contract.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>

#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/rewriter.h"
#include "optimize/analysis/match.h"
#include "reference/element_io.h"

namespace camshaft {

namespace {

using F = ScalarFunction;

// v·scale + shift, channel by channel.
struct Affine {
  std::vector<double> scale, shift;
  explicit Affine(int64_t channels)
      : scale(static_cast<size_t>(channels), 1), shift(static_cast<size_t>(channels), 0) {}
  bool scales() const {
    return std::any_of(scale.begin(), scale.end(), [](double s) { return s != 1; });
  }
  bool shifts() const {
    return std::any_of(shift.begin(), shift.end(), [](double s) { return s != 0; });
  }
};

// One pointwise node as v·scale + shift.
struct Step {
  ValueId operand = no_value;
  Affine affine;
};

// How weights are stored: `rows` runs of `inner` elements. A run belongs to one input and one output channel, or, in a
// matrix, goes along one of the two.
struct WeightLayout {
  enum class Along : uint8_t { neither, inputs, outputs };
  int64_t inputs = 0, outputs = 0;
  int64_t rows = 0, inner = 1;
  Along along = Along::neither;
  std::function<std::pair<int64_t, int64_t>(int64_t row)> channels;  // input, output (0 for the one along the run)
};

std::optional<WeightLayout> weight_layout(const Node& node, const Tensor& weights) {
  const Dims& d = weights.dims();
  if (weights.size() == 0) return std::nullopt;  // beside a size of 0 there may be channels without number
  WeightLayout layout;
  if (const auto* matmul = node.op.as<ops::MatMul>()) {
    if (d.size() != 2 || matmul->transpose_a) return std::nullopt;
    const bool transposed = matmul->transpose_b;
    layout.rows = d[0];
    layout.inner = d[1];
    layout.inputs = d[transposed ? 1 : 0];
    layout.outputs = d[transposed ? 0 : 1];
    layout.along = transposed ? WeightLayout::Along::inputs : WeightLayout::Along::outputs;
    layout.channels = [=](int64_t row) { return transposed ? std::pair(int64_t{0}, row) : std::pair(row, int64_t{0}); };
    return layout;
  }
  if (d.size() < 3) return std::nullopt;
  layout.rows = d[0] * d[1];
  layout.inner = weights.size() / layout.rows;
  const int64_t second = d[1];
  if (const auto* conv = node.op.as<ops::Conv>()) {
    layout.inputs = d[1] * conv->groups;
    layout.outputs = d[0];
    const int64_t outputs_a_group = d[0] / conv->groups;
    layout.channels = [=](int64_t row) {
      const int64_t out = row / second;
      return std::pair(out / outputs_a_group * second + row % second, out);
    };
    return layout;
  }
  const auto* transposed = node.op.as<ops::ConvTranspose>();
  layout.inputs = d[0];
  layout.outputs = d[1] * transposed->groups;
  const int64_t inputs_a_group = d[0] / transposed->groups;
  layout.channels = [=](int64_t row) {
    const int64_t in = row / second;
    return std::pair(in, in / inputs_a_group * second + row % second);
  };
  return layout;
}

bool is_unpadded(const Node& node) {
  const auto* conv = node.op.as<ops::Conv>();
  return conv && std::all_of(conv->pads.begin(), conv->pads.end(), [](const Dim& d) { return d == Dim(0); });
}

// The largest finite number of a weight's type: folding must not make infinities.
double largest(DType dtype) {
  return dtype == DType::f16 ? 65504 : dtype == DType::f64 ? 0x1p1000 : 0x1p127;
}

class Folder {
 public:
  Folder(Graph& graph, const PassContext& context)
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

  // A constant with one number a channel (or one for all), laid out against `type`.
  std::optional<std::vector<double>> per_channel(ValueId id, const TensorType& type, size_t axis,
                                                 int64_t channels) const {
    if (!is_readable_constant(graph_, id)) return std::nullopt;
    const Tensor& t = *graph_.value(id).constant;
    if (t.dtype() != type.dtype || t.dims().size() > type.shape.size()) return std::nullopt;
    const size_t lead = type.shape.size() - t.dims().size();
    for (size_t i = 0; i < t.dims().size(); ++i)
      if (t.dims()[i] != 1 && (lead + i != axis || t.dims()[i] != channels)) return std::nullopt;
    std::vector<double> values(static_cast<size_t>(channels));
    ops::load_elements(t.dtype(), t.data(), 0, t.size() == 1 ? 0 : 1, channels, values.data());
    if (!std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); })) return std::nullopt;
    return values;
  }

  // What an old node does to its one operand that is not constant, whose type must be that of the result.
  std::optional<Step> as_step(const Node& node, size_t axis, int64_t channels) const {
    const auto* pointwise = node.op.as<ops::Pointwise>();
    if (!pointwise || node.inputs.size() != 2) return std::nullopt;
    const TensorType& type = graph_.type(node.outputs[0]);
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const ValueId x = node.inputs[i];
      if (graph_.is_constant(x) || graph_.type(x) != type) continue;
      const auto c = per_channel(node.inputs[1 - i], type, axis, channels);
      if (!c) continue;
      Step step{x, Affine(channels)};
      const bool constant_first = i == 1;
      for (size_t k = 0; k < c->size(); ++k) {
        double &scale = step.affine.scale[k], &shift = step.affine.shift[k];
        const double value = (*c)[k];
        if (pointwise->function == F::add) {
          shift = value;
        } else if (pointwise->function == F::mul) {
          scale = value;
        } else if (pointwise->function == F::sub) {
          scale = constant_first ? -1 : 1;
          shift = constant_first ? value : -value;
        } else if (pointwise->function == F::div && !constant_first && value != 0) {
          scale = 1 / value;
        } else {
          return std::nullopt;
        }
      }
      return step;
    }
    return std::nullopt;
  }

  // The steps behind `last`, which moves on to their result. They are marked as dropped in `taken`.
  Affine follow(const Node& node, ValueId& last, int64_t channels, bool may_shift, std::vector<size_t>& taken) {
    Affine total(channels);
    const size_t axis = channel_axis(node, graph_.shape(last).size());
    while (uses_.single(last)) {
      const auto reader = static_cast<size_t>(uses_.readers[static_cast<size_t>(last)][0]);
      const Node& next = old(reader);
      const auto step = as_step(next, axis, channels);
      if (!step || step->operand != last || (step->affine.shifts() && !may_shift)) break;
      for (size_t k = 0; k < total.scale.size(); ++k) {
        total.scale[k] *= step->affine.scale[k];
        total.shift[k] = total.shift[k] * step->affine.scale[k] + step->affine.shift[k];
      }
      last = next.outputs[0];
      taken.push_back(reader);
    }
    return total;
  }

  // The steps before `first`, which moves back to what they read.
  Affine trace_back(const Node& node, ValueId& first, int64_t channels, bool may_shift,
                    std::vector<std::string>& sources) {
    Affine total(channels);
    const ValueId original = first;
    if (node.op.as<ops::ConvTranspose>()) return total;
    const size_t axis = channel_axis(node, graph_.shape(first).size());
    // What this pass added has no recorded uses; what it replaced has no producer any more.
    while (static_cast<size_t>(first) < uses_.readers.size() && uses_.single(first)) {
      const Node* before = producers_.find(first);
      if (!before) break;
      const auto step = as_step(*before, axis, channels);
      if (!step || (step->affine.shifts() && !may_shift)) break;
      for (size_t k = 0; k < total.scale.size(); ++k) {
        total.shift[k] += total.scale[k] * step->affine.shift[k];
        total.scale[k] *= step->affine.scale[k];
      }
      sources = merged_sources(before->sources, sources);
      first = step->operand;
    }
    // Behind another pointwise operator the steps cost next to nothing, as part of its region, while new weights cost
    // build time and memory (the ½ of gelu: 300 ms and 113 MB of a BERT).
    const Node* rest = producers_.find(first);
    if (first != original && rest && (rest->op.as<ops::Pointwise>() || rest->op.as<ops::Cast>())) {
      first = original;
      sources = node.sources;
      return Affine(channels);
    }
    return total;
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
    const Affine after = follow(node, last, layout->outputs, !is_matmul, taken);
    const Affine before = trace_back(node, first, layout->inputs, is_unpadded(node), sources);
    if (taken.empty() && first == node.inputs[0]) return false;

    const Dims bias_dims{layout->outputs};
    std::vector<double> bias(static_cast<size_t>(layout->outputs), 0);
    if (has_bias) bias = graph_.value(node.inputs[2]).constant->to_doubles();
    if (before.shifts()) add_shift_of_inputs(weights, *layout, before.shift, bias);
    for (size_t o = 0; o < bias.size(); ++o) bias[o] = bias[o] * after.scale[o] + after.shift[o];
    const bool needs_bias = has_bias || std::any_of(bias.begin(), bias.end(), [](double b) { return b != 0; });
    const double limit = largest(weights.dtype());
    if (!std::all_of(bias.begin(), bias.end(), [&](double b) { return std::abs(b) < limit; })) return false;

    std::vector<ValueId> inputs{rewriter_.resolve(first), node.inputs[1]};
    if (after.scales() || before.scales()) {
      const auto scaled = scale_weights(weights, *layout, before.scale, after.scale, limit);
      if (!scaled) return false;
      inputs[1] = graph_.add_constant(graph_.value(node.inputs[1]).name, *scaled);
    }
    if (needs_bias) {
      Tensor tensor(weights.dtype(), bias_dims);
      ops::store_elements(tensor.dtype(), tensor.mutable_data(), 0, 1, tensor.size(), bias.data());
      inputs.push_back(graph_.add_constant(graph_.value(node.outputs[0]).name + ".bias", std::move(tensor)));
    }
    for (const size_t n : taken) {
      sources = merged_sources(sources, old(n).sources);
      dropped_[n] = true;
    }
    rewriter_.replace(last, graph_.add(node.op, inputs, graph_.value(last).name, sources));
    return true;
  }

  // (a·s) × (b·t) = (a × b)·(s·t): one factor in the epilogue instead of one pass over each operand.
  bool move_factors_behind(const Node& node) {
    const TensorType type = graph_.type(node.outputs[0]);
    if (type.dtype != DType::f32 && type.dtype != DType::f64) return false;
    std::vector<ValueId> inputs = node.inputs;
    std::vector<std::string> sources = node.sources;
    double factor = 1;
    for (ValueId& id : inputs) {
      if (static_cast<size_t>(id) >= uses_.readers.size() || !uses_.single(id)) continue;
      const Node* before = producers_.find(id);
      const auto step = before ? as_step(*before, graph_.shape(id).size() - 1, 1) : std::nullopt;
      if (!step || step->affine.shifts()) continue;
      factor *= step->affine.scale[0];
      sources = merged_sources(before->sources, sources);
      id = step->operand;
    }
    if (inputs == node.inputs || !(std::abs(factor) > 0x1p-60 && std::abs(factor) < 0x1p60)) return false;
    for (ValueId& id : inputs) id = rewriter_.resolve(id);
    const std::string name = graph_.value(node.outputs[0]).name;
    const ValueId product = graph_.add(node.op, inputs, name + ".unscaled", sources);
    const ValueId scale = add_scalar(graph_, type.dtype, factor);
    rewriter_.replace(node.outputs[0], graph_.add(ops::Pointwise{F::mul}, {product, scale}, name, sources));
    return true;
  }

  // bias[o] += Σ weights[o, i, …]·shift[i]
  static void add_shift_of_inputs(const Tensor& weights, const WeightLayout& layout, const std::vector<double>& shift,
                                  std::vector<double>& bias) {
    std::vector<double> run(static_cast<size_t>(layout.inner));
    for (int64_t row = 0; row < layout.rows; ++row) {
      const auto [in, out] = layout.channels(row);
      ops::load_elements(weights.dtype(), weights.data(), row * layout.inner, 1, layout.inner, run.data());
      for (const double w : run) bias[static_cast<size_t>(out)] += w * shift[static_cast<size_t>(in)];
    }
  }

  std::optional<Tensor> scale_weights(const Tensor& weights, const WeightLayout& layout,
                                      const std::vector<double>& in_scale, const std::vector<double>& out_scale,
                                      double limit) const {
    Tensor scaled(weights.dtype(), weights.dims());
    std::byte* target = scaled.mutable_data();
    std::atomic<bool> fits = true;
    constexpr int64_t elements_a_piece = 1 << 14;
    const auto scale_rows = [&](int64_t begin, int64_t end) {
      using Along = WeightLayout::Along;
      std::vector<double> run(static_cast<size_t>(layout.inner));
      double most = 0;
      for (int64_t row = begin; row < end; ++row) {
        const auto [in, out] = layout.channels(row);
        const double row_factor = (layout.along == Along::inputs ? 1 : in_scale[static_cast<size_t>(in)]) *
                                  (layout.along == Along::outputs ? 1 : out_scale[static_cast<size_t>(out)]);
        const int64_t at = row * layout.inner;
        ops::load_elements(weights.dtype(), weights.data(), at, 1, layout.inner, run.data());
        if (layout.along != Along::neither) {
          const std::vector<double>& factors = layout.along == Along::inputs ? in_scale : out_scale;
          for (size_t i = 0; i < run.size(); ++i) run[i] *= factors[i];
        }
        for (double& w : run) {
          w *= row_factor;
          most = std::max(most, std::abs(w));
        }
        ops::store_elements(weights.dtype(), target, at, 1, layout.inner, run.data());
      }
      if (!(most < limit)) fits = false;
    };
    const int64_t grain = std::max<int64_t>(1, elements_a_piece / std::max<int64_t>(1, layout.inner));
    context_.pool.parallel_for(layout.rows, grain, scale_rows);
    if (!fits) return std::nullopt;
    return scaled;
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
  Folder(graph, context).run();
}

}  // namespace camshaft
