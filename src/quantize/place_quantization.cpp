#include "quantize/place_quantization.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/quantize.h"
#include "ir/rewriter.h"
#include "optimize/analysis/match.h"
#include "quantize/evenable_tensors.h"
#include "quantize/migrate_channels.h"
#include "quantize/quantizable_layers.h"
#include "quantize/quantize_constant.h"
#include "quantize/step_parameters.h"

namespace camshaft {

namespace {

using F = ScalarFunction;

// Half of what i32 holds: the sums of products need the other.
constexpr double most_bias_steps = 0x1p30;

class Placer {
 public:
  Placer(Graph& graph, const Calibration& calibration, const KeptLayers& kept, LayerPrecision precision)
      : graph_(graph),
        calibration_(calibration),
        kept_(kept),
        precision_(precision),
        is_float_(precision == LayerPrecision::fp8),
        layers_(quantizable_layers(graph)),
        evenable_(evenable_tensors(graph, layers_)),
        rewriter_(graph) {}

  std::vector<LayerPlacement> run() {
    choose();
    if (!is_float_) migrate();
    std::vector<Node>& nodes = rewriter_.nodes();
    size_t next = 0;
    for (size_t i = 0; i < nodes.size(); ++i) {
      Node node = std::move(nodes[i]);
      if (const auto divided = divided_.find(static_cast<int32_t>(i)); divided != divided_.end()) {
        divide_rows(node, 1, factors_.at(divided->second));
        if (has_operand(node, 2)) divide_rows(node, 2, factors_.at(divided->second));
      }
      if (next < layers_.size() && layers_[next].node == i) {
        if (placements_[next].quantized) quantize_operands(node, layers_[next]);
        ++next;
      } else if (reads_steps(node)) {
        for (ValueId& id : node.inputs)
          if (images_.contains(id)) id = in_steps(id, node.sources);
      }
      rewriter_.keep(std::move(node));
    }
    // The model's ranges do not fit them any more.
    for (const auto& [source, x] : divided_) graph_.rename(x, graph_.value(x).name + "_migrated");
    rewriter_.finish();
    return std::move(placements_);
  }

 private:
  // Which layers are quantised, what they read in steps, and what of that are images.
  void choose() {
    for (const QuantizableLayer& layer : layers_) {
      const std::string& tensor = graph_.value(layer.x).name;
      const auto range = calibration_.ranges.find(tensor);
      LayerPlacement placement;
      placement.precision = precision_;
      placement.layer = layer.name;
      placement.sources = rewriter_.nodes()[layer.node].sources;
      if (const auto kept = kept_.find(layer.name); kept != kept_.end()) {
        placement.reason = kept->second;
      } else if (range == calibration_.ranges.end()) {
        placement.reason = fmt::format("the calibration has no range for '{}'", tensor);
      } else if (const auto steps = is_float_ ? float8_steps_of(range->second) : steps_of(range->second)) {
        placement.quantized = true;
        parameters_.emplace(layer.x, *steps);
        if (rewriter_.nodes()[layer.node].op.as<ops::Conv>()) images_.insert(layer.x);
      } else {
        placement.reason = fmt::format("'{}' lies between {} and {}, which has no scale", tensor, range->second.min,
                                       range->second.max);
      }
      placements_.push_back(std::move(placement));
    }
  }

  // What has channels that stand out is divided by factors before.
  void migrate() {
    std::set<ValueId> read_as_it_is;  // by layers in floating point
    for (size_t i = 0; i < layers_.size(); ++i)
      if (!placements_[i].quantized) read_as_it_is.insert(layers_[i].x);
    for (size_t i = 0; i < layers_.size(); ++i) {
      const ValueId x = layers_[i].x;
      const auto tensor = evenable_.find(x);
      if (!placements_[i].quantized || factors_.contains(x) || tensor == evenable_.end()) continue;
      const std::string& name = graph_.value(x).name;
      const auto channels = calibration_.channels.find(name);
      if (channels == calibration_.channels.end()) continue;
      if (channels->second.size() != static_cast<size_t>(tensor->second.axis.channels))
        throw Error(
            ErrorCode::invalid_argument,
            fmt::format("the calibration has {} channels of '{}', which has {}: it is of another model; calibrate "
                        "this one",
                        channels->second.size(), name, tensor->second.axis.channels));
      const int32_t source = read_as_it_is.contains(x) ? -1 : tensor->second.source;
      if (source < 0 && images_.contains(x)) continue;
      const std::vector<float> factors =
          source < 0 ? migration_factors(channels->second)
                     : migration_powers(channels->second, weights_of(x, channels->second.size()));
      if (factors.empty()) continue;
      const auto steps = steps_of(migrated_range(calibration_.ranges.at(name), channels->second, factors));
      if (!steps) continue;
      parameters_.at(x) = *steps;
      factors_.emplace(x, factors);
      if (source >= 0) divided_.emplace(source, x);
    }
  }

  /// The largest magnitude of the weights that read each channel of a tensor.
  std::vector<float> weights_of(ValueId x, size_t channels) {
    std::vector<float> largest(channels);
    for (const QuantizableLayer& layer : layers_) {
      if (layer.x != x) continue;
      const Node& node = rewriter_.nodes()[layer.node];
      const Tensor& weights = *graph_.value(node.inputs[1]).constant;
      const auto* conv = node.op.as<ops::Conv>();
      const size_t axis = conv || layer.channel_axis == 0 ? 1 : 0;
      const int64_t rows = conv ? weights.dims()[0] / conv->groups : 0;
      int64_t inner = 1;
      for (size_t a = axis + 1; a < weights.dims().size(); ++a) inner *= weights.dims()[a];
      const int64_t columns = weights.dims()[axis];
      for (int64_t i = 0; i < weights.size(); ++i) {
        const int64_t group = conv ? i / (inner * columns) / rows : 0;
        float& most = largest[static_cast<size_t>(group * columns + i / inner % columns)];
        most = std::max(most, std::fabs(weights.as<float>()[i]));
      }
    }
    return largest;
  }

  /// Factors, or what they divide by, along an axis of a tensor.
  ValueId add_factors(const std::string& name, const std::vector<float>& factors, Dims dims, bool inverse) {
    Tensor tensor(DType::f32, std::move(dims));
    for (int64_t i = 0; i < tensor.size(); ++i) {
      const float factor = factors[static_cast<size_t>(i)];
      tensor.as_mutable<float>()[i] = inverse ? 1 / factor : factor;
    }
    return graph_.add_constant(name + "_migration", std::move(tensor));
  }

  static bool has_operand(const Node& node, size_t index) {
    return node.inputs.size() > index && node.inputs[index] != no_value;
  }

  /// Divides weights, or a bias, row by row.
  void divide_rows(Node& node, size_t operand, const std::vector<float>& factors) {
    Dims dims(graph_.shape(node.inputs[operand]).size(), 1);
    dims[0] = static_cast<int64_t>(factors.size());
    const std::string name = graph_.value(node.inputs[operand]).name;
    const ValueId by = add_factors(name + "_divided", factors, std::move(dims), true);
    node.inputs[operand] =
        graph_.add(ops::Pointwise{F::mul}, {node.inputs[operand], by}, name + "_divided", node.sources);
  }

  /// What a layer's weights are multiplied with.
  ValueId add_weight_factors(const Node& node, const QuantizableLayer& layer, const std::vector<float>& factors) {
    Dims weights;  // which may be a node's by now
    for (const Dim& dim : graph_.shape(node.inputs[1])) weights.push_back(dim.value());
    const std::string name = graph_.value(node.inputs[1]).name;
    const auto* conv = node.op.as<ops::Conv>();
    if (!conv)
      return add_factors(name, factors, layer.channel_axis == 0 ? Dims{weights[1]} : Dims{weights[0], 1}, false);
    Dims dims(weights.size(), 1);
    dims[1] = weights[1];
    if (conv->groups == 1) return add_factors(name, factors, dims, false);
    // Each group's rows have those of the channels that it reads.
    dims[0] = weights[0];
    std::vector<float> all;
    for (int64_t row = 0; row < weights[0]; ++row) {
      const auto first = factors.begin() + row / (weights[0] / conv->groups) * weights[1];
      all.insert(all.end(), first, first + weights[1]);
    }
    return add_factors(name, all, dims, false);
  }

  // What moves, selects or adds up elements, or computes with those at one place.
  static bool reads_steps(const Node& node) {
    const OpKind kind = node.op.traits().kind;
    return kind == OpKind::pointwise || kind == OpKind::move || kind == OpKind::reduction || node.op.selects();
  }

  ValueId in_steps(ValueId x, const std::vector<std::string>& sources) {
    const auto known = dequantized_.find(x);
    if (known != dequantized_.end()) return known->second;
    const StepParameters& steps = parameters_.at(x);
    const std::string name = graph_.value(x).name;
    ValueId even = x;
    if (const auto factors = factors_.find(x);
        factors != factors_.end() && !divided_.contains(evenable_.at(x).source)) {
      const auto count = static_cast<int64_t>(factors->second.size());
      const ValueId by = add_factors(name, factors->second, {count}, true);
      even = graph_.add(ops::Pointwise{F::mul}, {x, by}, name + "_migrated", sources);
    }
    const ValueId scale = graph_.add_constant(name + "_scale", Tensor::scalar(DType::f32, steps.scale));
    std::vector<ValueId> parameters{scale};
    if (!is_float_)
      parameters.push_back(graph_.add_constant(name + "_zero_point", Tensor::scalar(DType::u8, steps.zero)));
    const auto with_parameters = [&](ValueId id) {
      std::vector<ValueId> inputs{id};
      inputs.insert(inputs.end(), parameters.begin(), parameters.end());
      return inputs;
    };
    const ops::Quantize op{.dtype = is_float_ ? DType::f8e4m3 : DType::u8};
    const ValueId quantized = graph_.add(op, with_parameters(even), name + "_QuantizeLinear", sources);
    const ValueId real =
        graph_.add(ops::Dequantize{}, with_parameters(quantized), name + "_DequantizeLinear", sources);
    dequantized_.emplace(x, real);
    scales_.emplace(real, scale);
    return real;
  }

  void quantize_operands(Node& node, const QuantizableLayer& layer) {
    node.inputs[0] = in_steps(layer.x, node.sources);
    const ValueId x_scale = scales_.at(node.inputs[0]);
    const std::string name = graph_.value(node.inputs[1]).name;
    const auto add = [&](Op op, std::vector<ValueId> inputs, const std::string& suffix) {
      return graph_.add(std::move(op), std::move(inputs), name + suffix, node.sources);
    };
    const auto apply = [&](F function, std::vector<ValueId> inputs, const std::string& suffix) {
      return add(ops::Pointwise{function}, std::move(inputs), suffix);
    };
    if (const auto factors = factors_.find(layer.x); factors != factors_.end())
      node.inputs[1] = apply(F::mul, {node.inputs[1], add_weight_factors(node, layer, factors->second)}, "_migrated");
    const bool has_bias = !is_float_ && has_operand(node, 2) &&
                          (graph_.is_constant(node.inputs[2]) || divided_.contains(static_cast<int32_t>(layer.node)));
    ValueId least = no_value;
    if (has_bias) {
      // A channel with weights near 0 and a bias, as pruning leaves it, must not have so small a scale that the bias
      // has no i32 of steps.
      const ValueId size = apply(F::abs, {node.inputs[2]}, "_bias_magnitudes");
      const ValueId step = apply(F::div, {size, add_scalar(graph_, DType::f32, most_bias_steps)}, "_bias_step");
      least = apply(F::div, {step, x_scale}, "_least_scale");
    }
    const auto [weights, scale] = quantize_constant(graph_, node.inputs[1], layer.channel_axis, node.sources, least,
                                                    is_float_ ? DType::f8e4m3 : DType::i8);
    node.inputs[1] = weights;
    if (has_bias) {
      const ValueId sum_scale = apply(F::mul, {x_scale, scale}, "_sum_scale");
      const ValueId exact = apply(F::div, {node.inputs[2], sum_scale}, "_bias_steps");
      const ValueId rounded = apply(F::round, {exact}, "_bias_rounded");
      const ValueId bias = add(ops::Cast{DType::i32}, {rounded}, "_bias_quantized");
      node.inputs[2] = add(ops::Dequantize{.axis = 0}, {bias, sum_scale}, "_bias_DequantizeLinear");
    }
  }

  Graph& graph_;
  const Calibration& calibration_;
  const KeptLayers& kept_;
  const LayerPrecision precision_;
  const bool is_float_;
  const std::vector<QuantizableLayer> layers_;
  const std::unordered_map<ValueId, EvenableTensor> evenable_;
  Rewriter rewriter_;
  std::vector<LayerPlacement> placements_;                   // of layers_, in their order
  std::unordered_map<ValueId, StepParameters> parameters_;   // of what is read in steps
  std::set<ValueId> images_;                                 // of these, what convolutions read
  std::unordered_map<ValueId, std::vector<float>> factors_;  // what the channels of these are divided by
  std::map<int32_t, ValueId> divided_;                       // nodes that give these divided already
  std::unordered_map<ValueId, ValueId> dequantized_, scales_;
};

}  // namespace

std::vector<std::string> tensors_to_calibrate(const Graph& graph) {
  std::set<std::string> names;
  for (const QuantizableLayer& layer : quantizable_layers(graph)) names.insert(graph.value(layer.x).name);
  return {names.begin(), names.end()};
}

std::map<std::string, ChannelAxis> channels_to_calibrate(const Graph& graph) {
  std::map<std::string, ChannelAxis> channels;
  for (const auto& [x, tensor] : evenable_tensors(graph, quantizable_layers(graph)))
    channels.emplace(graph.value(x).name, tensor.axis);
  return channels;
}

std::vector<LayerPlacement> place_quantization(Graph& graph, const Calibration& calibration, const KeptLayers& kept,
                                               LayerPrecision precision) {
  return Placer(graph, calibration, kept, precision).run();
}

}  // namespace camshaft
