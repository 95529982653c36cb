// Convolutions, and products with constant weights as such of one pixel, by cuDNN with all that follows them.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>

#include "backends/cuda/libraries/dnn_plans.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/library_product.h"
#include "compile/optimum.h"
#include "compile/plan/shape_check.h"
#include "ir/ops/spatial.h"

namespace camshaft::cuda {

namespace {

using Activation = KnownActivation;

std::optional<api::DnnPointwise> function_of(std::optional<Activation> activation) {
  if (!activation) return std::nullopt;
  switch (*activation) {
    case Activation::relu:
      return api::dnn_relu;
    case Activation::gelu:
      return api::dnn_gelu;
    case Activation::gelu_by_tanh:
      return api::dnn_gelu_by_tanh;
    case Activation::silu:
      return api::dnn_silu;
    case Activation::sigmoid:
      return api::dnn_sigmoid;
    case Activation::tanh_of_softplus:
      return std::nullopt;
  }
  return std::nullopt;
}

// A window, and what the library asks of channels: whole pieces of 16 bytes.
std::optional<LibraryView> view_dnn(const RegionView& region, const DeviceFacts& device) {
  auto view = view_library(region, device);
  if (!view || view->linear.alpha != 1 || (view->linear.beta != 0 && view->linear.beta != 1)) return std::nullopt;
  const ProductView& product = view->product;
  const int64_t chunk = 128 / bit_width(product.form.dtype);
  if (!product.rows || product.rows->channels % chunk != 0 || product.rows->rows % chunk != 0) return std::nullopt;
  // Its functions are approximations that f32 would show.
  const auto activation = view->linear.activation;
  if (product.epilogue.result == DType::f32 && activation && activation != Activation::relu) return std::nullopt;
  if (!product.conv) return product.matmul->transpose_a ? std::nullopt : std::move(view);
  const auto is_amount = [](const Dim& pad) { return pad.as_constant().value_or(-1) >= 0; };
  if (product.conv->groups != 1 || !std::all_of(product.conv->pads.begin(), product.conv->pads.end(), is_amount))
    return std::nullopt;
  return view;
}

struct Shapes {
  Dims x, y;  // images, channels, height, width
  int64_t taps_y = 1, taps_x = 1;
  DnnWindow window{{1, 1}, {1, 1}, {0, 0}, {0, 0}};
};

// [images, height, width, channels], or with one axis, or any number for a product.
Shapes shapes_of(const ProductView& product, const KernelShapes& shapes) {
  const OperandShape &x = shapes.inputs[static_cast<size_t>(product.a)], &y = shapes.outputs[0];
  Shapes s;
  if (!product.conv) {
    require_equal(x.dims.back(), product.rows->channels, "the size that matmul sums over");
    require_equal(y.dims.back(), product.rows->rows, "the number of columns of a matmul");
    const int64_t m = element_count(Dims(y.dims.begin(), y.dims.end() - 1));
    require_equal(element_count(Dims(x.dims.begin(), x.dims.end() - 1)), m, "the number of rows of a matmul");
    s.x = {1, x.dims.back(), m, 1};
    s.y = {1, y.dims.back(), m, 1};
    return s;
  }
  const ops::Conv& op = *product.conv;
  require_equal(x.dims.back(), product.window[1], "the number of input channels of a convolution");
  if (const auto& inputs = product.contract.anchor_inputs; inputs.size() > 2 && inputs[2] >= 0)
    require_equal(shapes.inputs[static_cast<size_t>(inputs[2])].dims[0], product.window[0],
                  "the number of biases of a convolution");
  const bool is_2d = x.dims.size() == 4;
  const auto image = [&](const Dims& d) { return is_2d ? Dims{d[0], d[3], d[1], d[2]} : Dims{d[0], d[2], 1, d[1]}; };
  s.x = image(x.dims);
  s.y = image(y.dims);
  s.taps_y = product.window[2];
  s.taps_x = product.window[3];
  const size_t axes = op.strides.size();
  for (size_t a = 0; a < axes; ++a) {
    const size_t to = a + 2 - axes;
    s.window.strides[to] = op.strides[a];
    s.window.dilations[to] = op.dilations[a];
    s.window.pads_before[to] = ops::evaluate_pad(op.pads[a], *shapes.symbols);
    s.window.pads_after[to] = ops::evaluate_pad(op.pads[axes + a], *shapes.symbols);
  }
  return s;
}

DnnTensor channels_last(DType dtype, const Dims& d, DnnTensor::Kind kind = DnnTensor::stored) {
  return {dtype, d, {d[1] * d[2] * d[3], 1, d[1] * d[3], d[1]}, kind};
}

std::shared_ptr<const DnnPlan> make_plan(const LibraryOperands& operands, const Shapes& s, LibraryChoice choice) {
  const ProductView& product = operands.view().product;
  const LinearEpilogue& linear = operands.view().linear;
  const DType dtype = product.form.dtype, result = product.epilogue.result;
  DnnGraph graph(operands.device(), dnn_alignment);
  // In the order of addresses_of().
  const size_t x = graph.add(channels_last(dtype, s.x));
  const size_t weights = graph.add(channels_last(dtype, {s.y[1], s.x[1], s.taps_y, s.taps_x}));
  const size_t bias = linear.bias < 0 ? 0 : graph.add(channels_last(result, {1, s.y[1], 1, 1}));
  const size_t residual = linear.residual < 0 ? 0 : graph.add(channels_last(result, s.y));
  const size_t y = graph.add(channels_last(result, s.y));
  const auto function = function_of(linear.activation);
  int behind = (bias ? 1 : 0) + (residual ? 1 : 0) + (function ? 1 : 0);
  // What the next operation writes: the result, when it is the last.
  const auto next = [&] { return behind-- == 0 ? y : graph.add(channels_last(DType::f32, s.y, DnnTensor::passed_on)); };
  size_t last = next();
  graph.add_convolution(x, weights, last, s.window);
  for (const size_t added : {bias, residual}) {
    if (added == 0) continue;
    const size_t sum = next();
    graph.add_pointwise(api::dnn_add, last, sum, added);
    last = sum;
  }
  if (function) graph.add_pointwise(*function, last, next());
  return std::move(graph).plan(choice.rank, dtype, choice.tf32 ? DnnFactors::rounded_to_tf32 : DnnFactors::as_they_are);
}

std::shared_ptr<const DnnPlan> plan_of(const LibraryOperands& operands, const Shapes& s, LibraryChoice choice) {
  const ProductView& product = operands.view().product;
  const LinearEpilogue& linear = operands.view().linear;
  const DnnWindow& w = s.window;
  const std::string key =
      fmt::format("{} {} {} | {} {} {} {} | {} {} {} {} | {} {} {} {} {}", operands.device()->facts().ordinal,
                  to_string(product.form.dtype), to_string(product.epilogue.result), to_string(s.x), to_string(s.y),
                  s.taps_y, s.taps_x, to_string(w.strides), to_string(w.dilations), to_string(w.pads_before),
                  to_string(w.pads_after), linear.bias >= 0, linear.residual >= 0,
                  linear.activation ? static_cast<int>(*linear.activation) : -1, choice.rank, choice.tf32);
  return kept_plan(key, [&] { return make_plan(operands, s, choice); });
}

class DnnLaunch final : public Launch {
 public:
  DnnLaunch(const LibraryOperands& operands, const KernelShapes& shapes, LibraryChoice choice)
      : operands_(operands), symbols_(*shapes.symbols), shapes_(shapes) {
    shapes_.symbols = &symbols_;
    const Shapes s = shapes_of(operands.view().product, shapes);
    constexpr int64_t most = int64_t{1} << 31;
    const int64_t in = element_count(s.x), out = element_count(s.y);
    if (in >= most || out >= most)
      throw Error(ErrorCode::unsupported, "a convolution of more than 2^31 elements, which cuDNN does not count");
    if (out == 0) return;
    if (in == 0) throw Error(ErrorCode::unsupported, "a convolution of nothing but padding, which cuDNN does not have");
    aligned_.emplace(plan_of(operands, s, choice));
  }

  size_t workspace_bytes() const override { return aligned_ ? aligned_->plan().workspace_bytes() : 0; }

  void run(const LaunchArguments& arguments) override {
    if (!aligned_) return;
    const LibraryAddresses at = operands_.bind(arguments);
    addresses_.assign({at.a, at.b});
    if (at.bias) addresses_.push_back(at.bias);
    if (at.residual) addresses_.push_back(at.residual);
    addresses_.push_back(at.c);
    if (at.are_aligned()) return aligned_->run(queue_of(arguments), addresses_, at.workspace);
    // Only what the caller binds may be so, and hardly anyone does that: a kernel of ours is made when it happens.
    // (The library's plans for single elements refuse to run: cuDNN 9.19, status 2003.)
    if (!own_) {
      own_ = operands_.own().prepare(shapes_);
      workspace_ = DeviceBuffer(*operands_.device(), own_->workspace_bytes(), "the workspace of a layer");
    }
    LaunchArguments own = arguments;
    own.workspace = workspace_.data();
    own_->run(own);
  }

 private:
  const LibraryOperands& operands_;
  SymbolBindings symbols_;
  KernelShapes shapes_;
  std::optional<DnnRun> aligned_;
  std::unique_ptr<Launch> own_;  // for operands that are not aligned
  DeviceBuffer workspace_;       // of own_
  std::vector<const std::byte*> addresses_;
};

// As measured on an H200 in f16: at least 3 µs, more for long sums, 600 TFLOP/s for large products, half of that where
// channels are few, and time for what follows the sum that nothing hides. A microsecond more: an engine compiles
// these kernels whenever it is loaded, in up to a second each.
// TF32 is taken to run at half that rate.
double seconds_of_dnn(const RegionView& region, const LibraryView& view, const DeviceFacts& device, bool tf32) {
  const ContractSize size = size_at_optimum(region, view.product);
  const bool is_f32 = view.product.form.dtype == DType::f32 && !tf32;
  const Generation generation = device.features.generation;
  const double of_one = generation >= Generation::hopper   ? (is_f32 ? 0.2e12 : 4.6e12)
                        : generation >= Generation::ampere ? (is_f32 ? 0.1e12 : 2e12)
                                                           : (is_f32 ? 0.08e12 : 0.7e12);
  const double columns = std::min(1.0, size.n / 128);
  const double flops = (tf32 ? 4 : 2) * size.m * size.n * size.k * size.batch / columns;
  const auto activation = view.linear.activation;
  const bool is_plain = !activation || activation == Activation::relu;
  const double finish = is_plain ? 0 : size.m * size.n * size.batch * (activation == Activation::gelu ? 2e-12 : 1e-12);
  const double product = std::max({1e-6 + size.k * 1.9e-9, flops / (of_one * device.multiprocessors),
                                   0.75 * bytes_at_optimum(region) * seconds_per_byte});
  constexpr double seconds_in_doubt = 1e-6;
  return seconds_per_launch + seconds_in_doubt + product + finish;
}

std::vector<TacticOffer> offer_dnn(const RegionView& region, const Workshop& workshop) {
  const DeviceFacts& device = workshop.device()->facts();
  const auto view = view_dnn(region, device);
  if (!view || !has_dnn(*workshop.device())) return {};
  constexpr int ranks = 3;
  return library_offers(view->product, ranks, [&](bool tf32) { return seconds_of_dnn(region, *view, device, tf32); });
}

std::shared_ptr<const Kernel> compile_dnn(const RegionView& region, const TacticParameters& parameters,
                                          const Workshop& workshop, PackedConstants& constants) {
  LibraryView view = *view_dnn(region, workshop.device()->facts());
  const LibraryChoice choice = library_choice(view.product, parameters);
  return library_kernel(region, std::move(view), workshop, constants, false,
                        [choice](const LibraryOperands& operands, const KernelShapes& shapes) {
                          return std::make_unique<DnnLaunch>(operands, shapes, choice);
                        });
}

}  // namespace

const CudaTactic dnn_tactic{"cuda_dnn", offer_dnn, compile_dnn};

}  // namespace camshaft::cuda
