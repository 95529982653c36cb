#include "optimize/canonicalize/merge_convolutions.h"

#include <algorithm>
#include <cmath>

#include "ir/ops/contract.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/replaceable.h"
#include "ir/rewriter.h"
#include "optimize/analysis/channel_affine.h"
#include "optimize/analysis/match.h"
#include "reference/derived_constant.h"
#include "reference/element_io.h"

namespace camshaft {

namespace {

using F = ScalarFunction;

// A convolution with constant weights, [out, in/groups, kernel...], and perhaps a bias.
struct Convolution {
  ops::Conv op;
  ValueId x = no_value;
  Constant weights, bias;
  std::vector<std::string> sources;

  const Dims& dims() const { return weights.tensor->dims(); }
  size_t axes() const { return op.strides.size(); }
};

// Where the kernel of `inner` lies in that of `outer`, such that both read the same pixels; nothing where it has no
// place there.
std::optional<Dims> place_within(const Convolution& outer, const Convolution& inner) {
  Dims place;
  for (size_t i = 0; i < outer.axes(); ++i) {
    const auto outer_pad = outer.op.pads[i].as_constant(), inner_pad = inner.op.pads[i].as_constant();
    if (!outer_pad || !inner_pad) return std::nullopt;
    const int64_t taps = inner.dims()[2 + i], step = outer.op.dilations[i], pixels = *outer_pad - *inner_pad;
    if (pixels % step != 0 || (taps > 1 && inner.op.dilations[i] != step)) return std::nullopt;
    place.push_back(pixels / step);
    if (pixels < 0 || place.back() > outer.dims()[2 + i] - taps) return std::nullopt;
  }
  return place;
}

// Whether 8 bits leave enough of the weights of each output channel, the first axis.
bool are_quantizable(const Constant& kernels) {
  if (may_be_replaced(kernels.provenance)) return false;
  constexpr double steps = 127, most_noise = 1e-3;
  const Tensor& tensor = *kernels.tensor;
  const int64_t channels = tensor.dims()[0], count = tensor.size() / channels;
  std::vector<double> weights(static_cast<size_t>(count));
  for (int64_t c = 0; c < channels; ++c) {
    ops::load_elements(tensor.dtype(), tensor.data(), c * count, 1, count, weights.data());
    double largest = 0, power = 0;
    for (const double w : weights) {
      largest = std::max(largest, std::abs(w));
      power += w * w;
    }
    const double step = largest / steps, noise = static_cast<double>(count) * step * step / 12;
    if (!(noise <= most_noise * power)) return false;
  }
  return true;
}

class ConvolutionMerger {
 public:
  ConvolutionMerger(Graph& graph, const PassContext& context, bool will_be_quantized)
      : graph_(graph),
        pool_(context.pool),
        storage_(context.storage),
        will_be_quantized_(will_be_quantized),
        uses_(graph),
        rewriter_(graph),
        producers_(graph) {}

  void run() {
    rewriter_.replace_each(
        [&](const Node& node, const std::vector<ValueId>& old_inputs) { return merged(node, old_inputs); });
  }

 private:
  // In what a kernel is added up.
  static DType of_sums(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

  // Values that this pass has added have no recorded uses.
  bool is_read_once(ValueId id) const { return static_cast<size_t>(id) < uses_.readers.size() && uses_.single(id); }

  std::optional<Convolution> as_convolution(ValueId id) {
    const Node* node = producers_.find(id);
    const auto* conv = node ? node->op.as<ops::Conv>() : nullptr;
    if (!conv || conv->channels_last) return std::nullopt;
    const bool has_bias = node->inputs.size() > 2 && node->inputs[2] != no_value;
    if (!is_readable_constant(graph_, node->inputs[1]) || (has_bias && !is_readable_constant(graph_, node->inputs[2])))
      return std::nullopt;
    Convolution found{*conv, node->inputs[0], graph_.constant(node->inputs[1]), {}, node->sources};
    if (has_bias) found.bias = graph_.constant(node->inputs[2]);
    const Tensor& weights = *found.weights.tensor;
    if (!is_floating(weights.dtype()) || bit_width(weights.dtype()) < 16 || weights.size() == 0) return std::nullopt;
    return found;
  }

  // `id` as a convolution of one pixel, in the groups of `beside`, whose x is scaled and shifted to it. `old`: the same
  // value before this pass.
  std::optional<Convolution> as_scaled(ValueId id, ValueId old, const Convolution& beside) {
    const int64_t channels = beside.dims()[0], in_group = beside.dims()[1], groups = beside.op.groups;
    const auto& strides = beside.op.strides;
    const bool keeps_pixels = std::all_of(strides.begin(), strides.end(), [](int64_t s) { return s == 1; });
    if (!keeps_pixels || in_group * groups != channels || graph_.type(id) != graph_.type(beside.x)) return std::nullopt;
    std::vector<ChannelStep> steps;
    std::vector<std::string> sources;
    for (; id != beside.x; id = old = steps.front().operand) {
      const Node* node = is_read_once(old) ? producers_.find(id) : nullptr;
      const auto step = node ? channel_step(graph_, *node, 1, channels) : std::nullopt;
      if (!step) return std::nullopt;
      steps.insert(steps.begin(), *step);
      sources = merged_sources(node->sources, sources);
    }
    if (steps.empty()) return std::nullopt;  // an addition of x itself costs nothing behind a convolution

    const ChannelAffine affine = composed(graph_, steps, pool_);
    Dims dims(2 + beside.axes(), 1);
    dims[0] = channels, dims[1] = in_group;
    Convolution found{
        beside.op, beside.x, derive_reshaped(diagonals(affine.scale, groups, in_group), dims, pool_), {}, sources};
    found.op.pads.assign(2 * beside.axes(), Dim(0));
    if (affine.shift.tensor) found.bias = for_each_channel(affine.shift, channels, pool_);
    return found;
  }

  // [groups, n · n], matrices with the factors on their diagonals: with n zeros behind each they are a distance of n +
  // 1 apart.
  Constant diagonals(const Constant& factors, int64_t groups, int64_t n) const {
    const Constant given = factors.tensor ? factors : literal(Tensor::scalar(DType::f64, 1).reshaped({1}));
    const Constant each = derive_reshaped(for_each_channel(given, groups * n, pool_), {groups, n, 1}, pool_);
    const ops::Pad zeros_behind{.pads = {0, 0, 0, 0, 0, n}};
    const Constant spread = derive_reshaped(derive(zeros_behind, {each}, pool_), {groups, n * (n + 1)}, pool_);
    const ops::Pad without_the_last{.pads = {0, 0, 0, -n}};
    return derive(without_the_last, {spread}, pool_);
  }

  // The kernel of `conv` among zeros, in `dims`, in the type of sums.
  Constant placed(const Convolution& conv, const Dims& place, const Dims& dims, DType dtype) const {
    ops::Pad pad;
    pad.pads.assign(2 * dims.size(), Dim(0));
    for (size_t i = 2; i < dims.size(); ++i) {
      pad.pads[i] = Dim(place[i - 2]);
      pad.pads[dims.size() + i] = Dim(dims[i] - conv.dims()[i] - place[i - 2]);
    }
    const Constant kernel = derive_cast(conv.weights, dtype, pool_);
    return conv.dims() == dims ? kernel : derive(pad, {kernel}, pool_);
  }

  // Whether numbers of `dtype`, and those that are stored, can be these.
  bool fits(const Constant& numbers, DType dtype) const {
    const bool is_f16 = dtype == DType::f16 || (dtype == DType::f32 && storage_ == DType::f16);
    if (!is_f16 || may_be_replaced(numbers.provenance)) return true;
    constexpr float largest = 65504;
    const auto* x = numbers.tensor->as<float>();
    return std::none_of(x, x + numbers.tensor->size(), [](float v) { return std::abs(v) > largest; });
  }

  ValueId merged(const Node& node, const std::vector<ValueId>& old_inputs) {
    const auto* pointwise = node.op.as<ops::Pointwise>();
    if (!pointwise || (pointwise->function != F::add && pointwise->function != F::sub)) return no_value;
    const TensorType type = graph_.type(node.outputs[0]);
    std::optional<Convolution> terms[2];
    for (const size_t i : {size_t{0}, size_t{1}}) {
      if (graph_.type(node.inputs[i]) != type || !uses_.single(old_inputs[i])) return no_value;
      terms[i] = as_convolution(node.inputs[i]);
    }
    for (const size_t i : {size_t{0}, size_t{1}})
      if (!terms[i] && terms[1 - i]) terms[i] = as_scaled(node.inputs[i], old_inputs[i], *terms[1 - i]);
    if (!terms[0] || !terms[1]) return no_value;
    const Convolution &a = *terms[0], &b = *terms[1];
    const bool alike = a.x == b.x && a.op.strides == b.op.strides && a.op.groups == b.op.groups &&
                       a.op.rounding == b.op.rounding && a.dims()[0] == b.dims()[0];
    if (!alike) return no_value;

    const auto b_in_a = place_within(a, b), a_in_b = place_within(b, a);
    if (!b_in_a && !a_in_b) return no_value;
    const Convolution& outer = b_in_a ? a : b;
    const Dims whole(outer.axes(), 0);
    const DType dtype = type.dtype, sums = of_sums(dtype);
    const Constant kernels = derive(pointwise->function,
                                    {placed(a, b_in_a ? whole : *a_in_b, outer.dims(), sums),
                                     placed(b, b_in_a ? *b_in_a : whole, outer.dims(), sums)},
                                    pool_);
    const Constant shift = sum_of_biases(pointwise->function, a, b, sums);
    if (will_be_quantized_ && !are_quantizable(kernels)) return no_value;
    if (!fits(kernels, dtype) || (shift.tensor && !fits(shift, dtype))) return no_value;

    const std::string name = graph_.value(node.outputs[0]).name;
    std::vector<ValueId> inputs{outer.x, graph_.add_constant(name + ".weight", derive_cast(kernels, dtype, pool_))};
    if (shift.tensor) inputs.push_back(graph_.add_constant(name + ".bias", derive_cast(shift, dtype, pool_)));
    const std::vector<std::string> sources = merged_sources(merged_sources(a.sources, b.sources), node.sources);
    return graph_.add(outer.op, inputs, name, sources);
  }

  Constant sum_of_biases(F function, const Convolution& a, const Convolution& b, DType dtype) const {
    if (!b.bias.tensor) return a.bias.tensor ? derive_cast(a.bias, dtype, pool_) : Constant{};
    const Constant of_b = derive_cast(b.bias, dtype, pool_);
    if (a.bias.tensor) return derive(function, {derive_cast(a.bias, dtype, pool_), of_b}, pool_);
    return function == F::sub ? derive(F::neg, {of_b}, pool_) : of_b;
  }

  Graph& graph_;
  ThreadPool& pool_;
  const DType storage_;
  const bool will_be_quantized_;
  Uses uses_;
  Rewriter rewriter_;
  Producers producers_;
};

}  // namespace

void merge_convolutions(Graph& graph, const PassContext& context) {
  ConvolutionMerger(graph, context, false).run();
}

void merge_quantizable_convolutions(Graph& graph, const PassContext& context) {
  ConvolutionMerger(graph, context, true).run();
}

}  // namespace camshaft
