// Attention by cuDNN.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>
#include <optional>
#include <string>

#include "backends/cuda/libraries/dnn_attention_shape.h"
#include "backends/cuda/libraries/dnn_plans.h"
#include "backends/cuda/tactics/attention_kernel.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "compile/optimum.h"
#include "reference/element_io.h"

namespace camshaft::cuda {

namespace {

constexpr size_t in_mask = 3;

bool is_finite(const Tensor& tensor) {
  std::vector<double> values(static_cast<size_t>(tensor.size()));
  ops::load_elements(tensor.dtype(), tensor.data(), 0, 1, tensor.size(), values.data());
  return std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); });
}

// Whether the library computes what the operator does, whatever the shapes. Where all keys are masked by -inf its
// results are 0, and not NaN. Scores of NaN or +inf make NaN of them, also where zero_undefined asks for 0: that is
// meant for masked keys, and finite queries and keys have no such scores.
bool is_alike(const RegionView& region, const ops::Attention& op) {
  const DType dtype = region.graph.type(region.node.inputs[0]).dtype;
  if (dtype != DType::f16 && dtype != DType::bf16) return false;
  if (op.masked.empty()) return true;
  if (op.masked.size() != 1 || region.graph.type(region.node.inputs[in_mask]).dtype != dtype) return false;
  const Tensor* mask = region.constant(in_mask);
  return op.zero_undefined || (mask && is_finite(*mask));
}

Dims dense(const Dims& dims) {
  Dims strides(dims.size(), 1);
  for (size_t i = dims.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

// Softmax in the steps that the library takes for attention: it recognises these, with the logarithm of the sums, which
// nobody reads. (Without that it knows only a kernel for Ampere that holds all scores, of 512 keys at most.)
std::shared_ptr<const DnnPlan> make_plan(const std::shared_ptr<const Device>& device, DType dtype,
                                         const DnnAttentionShape& s, int rank) {
  DnnGraph graph(device, dnn_alignment);
  const auto stored = [&](const DnnAttentionShape::Access& a) { return graph.add({dtype, a.dims, a.strides}); };
  // In the order of DnnAttentionLaunch's addresses.
  const size_t query = stored(s.query);
  DnnAttentionShape::Access transposed = s.key;
  std::swap(transposed.dims[2], transposed.dims[3]);
  std::swap(transposed.strides[2], transposed.strides[3]);
  const size_t key = stored(transposed), value = stored(s.value);
  const size_t scale = graph.add({DType::f32, {1, 1, 1, 1}, {1, 1, 1, 1}, DnnTensor::by_value});
  const std::optional<size_t> mask = s.mask ? std::optional(stored(*s.mask)) : std::nullopt;
  const size_t result = stored(s.result);

  const Dims rows{s.query.dims[0], s.query.dims[1], s.query.dims[2], 1};
  Dims matrix = rows;
  matrix[3] = s.key.dims[2];
  const auto passed = [&](const Dims& dims, DType type = DType::f32) {
    return graph.add({type, dims, dense(dims), DnnTensor::passed_on});
  };
  const auto apply = [&](api::DnnPointwise function, size_t x, size_t y, std::optional<size_t> b = std::nullopt) {
    graph.add_pointwise(function, x, y, b);
    return y;
  };
  size_t scores = passed(matrix);
  graph.add_product(query, key, scores);
  scores = apply(api::dnn_multiply, scores, passed(matrix), scale);
  if (mask) scores = apply(api::dnn_add, scores, passed(matrix), mask);
  const size_t largest = passed(rows), sums = passed(rows);
  graph.add_reduction(api::dnn_max, scores, largest);
  const size_t differences = apply(api::dnn_subtract, scores, passed(matrix), largest);
  const size_t powers = apply(api::dnn_exp, differences, passed(matrix));
  graph.add_reduction(api::dnn_sum, powers, sums);
  const size_t logarithms = apply(api::dnn_log, sums, passed(rows));
  apply(api::dnn_add, largest, passed(rows), logarithms);
  const size_t probabilities = apply(api::dnn_divide, powers, passed(matrix, dtype), sums);
  graph.add_product(probabilities, value, result);
  return std::move(graph).plan(rank, dtype, DnnFactors::as_they_are);
}

std::shared_ptr<const DnnPlan> plan_of(const std::shared_ptr<const Device>& device, DType dtype,
                                       const DnnAttentionShape& s, int rank) {
  std::string key = fmt::format("attention {} {} {}", device->facts().ordinal, to_string(dtype), rank);
  for (const auto* a : {&s.query, &s.key, &s.value, &s.result, s.mask ? &*s.mask : nullptr})
    if (a) key += fmt::format(" | {} {}", to_string(a->dims), to_string(a->strides));
  return kept_plan(key, [&] { return make_plan(device, dtype, s, rank); });
}

class DnnAttentionKernel final : public Kernel {
 public:
  DnnAttentionKernel(ops::Attention op, DType dtype, int rank, std::shared_ptr<const Device> of,
                     std::function<std::shared_ptr<const Kernel>()> compile_own)
      : device(std::move(of)), op_(std::move(op)), dtype_(dtype), rank_(rank), compile_own_(std::move(compile_own)) {}
  Place place() const override { return Place::device; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override;
  /// Our own, compiled when it is first needed.
  const Kernel& own() const {
    const std::lock_guard lock(mutex_);
    if (!own_) own_ = compile_own_();
    return *own_;
  }

  std::shared_ptr<const Device> device;

 private:
  ops::Attention op_;
  DType dtype_;
  int rank_;
  std::function<std::shared_ptr<const Kernel>()> compile_own_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Kernel> own_;
};

class DnnAttentionLaunch final : public Launch {
 public:
  DnnAttentionLaunch(const DnnAttentionKernel& kernel, const KernelShapes& shapes, const DnnAttentionShape& shape,
                     double scale, std::shared_ptr<const DnnPlan> plan)
      : kernel_(kernel),
        symbols_(*shapes.symbols),
        shapes_(shapes),
        scale_(static_cast<float>(scale)),
        aligned_(std::move(plan)) {
    shapes_.symbols = &symbols_;
    const auto bytes = [](const DnnAttentionShape::Access& a) { return a.offset * 2; };  // of 16-bit elements
    offsets_ = {bytes(shape.query), bytes(shape.key), bytes(shape.value)};
    if (shape.mask) offsets_.push_back(bytes(*shape.mask));
    result_offset_ = bytes(shape.result);
  }

  size_t workspace_bytes() const override { return aligned_.plan().workspace_bytes(); }

  void run(const LaunchArguments& arguments) override {
    addresses_.clear();
    bool are_aligned = true;
    const auto add = [&](const std::byte* address) {
      are_aligned = are_aligned && is_aligned(address, dnn_alignment);
      addresses_.push_back(address);
    };
    for (size_t i = 0; i < offsets_.size(); ++i) {
      if (i == in_mask) addresses_.push_back(reinterpret_cast<const std::byte*>(&scale_));
      add(arguments.inputs[i] + offsets_[i]);
    }
    if (offsets_.size() == in_mask) addresses_.push_back(reinterpret_cast<const std::byte*>(&scale_));
    add(arguments.outputs[0] + result_offset_);
    if (are_aligned) return aligned_.run(queue_of(arguments), addresses_, arguments.workspace);
    // Only what the caller binds may be so, and hardly anyone does that.
    if (!own_) {
      own_ = kernel_.own().prepare(shapes_);
      workspace_ = DeviceBuffer(*kernel_.device, own_->workspace_bytes(), "the workspace of a layer");
    }
    LaunchArguments own = arguments;
    own.workspace = workspace_.data();
    own_->run(own);
  }

 private:
  const DnnAttentionKernel& kernel_;
  SymbolBindings symbols_;
  KernelShapes shapes_;
  float scale_;
  DnnRun aligned_;
  std::vector<int64_t> offsets_;  // of the query, key, value and mask, in bytes
  int64_t result_offset_ = 0;
  std::unique_ptr<Launch> own_;  // for operands that are not aligned
  DeviceBuffer workspace_;       // of own_
  std::vector<const std::byte*> addresses_;
};

std::unique_ptr<Launch> DnnAttentionKernel::prepare(const KernelShapes& shapes) const {
  std::vector<Dims> inputs;
  for (const OperandShape& input : shapes.inputs) inputs.push_back(input.dims);
  ops::bind_attention(op_, inputs, shapes.outputs[0].dims, *shapes.symbols);  // checks every access
  const auto shape = dnn_attention_shape(op_, *shapes.symbols);
  if (!shape) return own().prepare(shapes);
  try {
    return std::make_unique<DnnAttentionLaunch>(*this, shapes, *shape, op_.scale,
                                                plan_of(device, dtype_, *shape, rank_));
  } catch (const Error& e) {
    if (e.code() != ErrorCode::unsupported) throw;
  }
  return own().prepare(shapes);
}

// As measured on an H200 in f16 with heads of 64 (BERT and ViT, batches of 1 to 128): 5 µs at least, then about
// 220 TFLOP/s and 75 % of what memory allows.
double seconds_of_dnn_attention(const RegionView& region, const ops::Attention& op, const DeviceFacts& device) {
  double scores = 1;
  for (const Shape* sizes : {&op.outer, &op.queries, &op.keys})
    for (const Dim& d : *sizes) scores *= size_at_optimum(region, d);
  const double flops = 2 * scores * (static_cast<double>(op.size) + static_cast<double>(op.value_size));
  const double of_one = device.features.generation >= Generation::hopper ? 1.7e12 : 0.8e12;
  constexpr double least = 3e-6;
  return seconds_per_launch + least +
         std::max(flops / (of_one * device.multiprocessors), 0.75 * bytes_at_optimum(region) * seconds_per_byte);
}

std::vector<TacticOffer> offer_dnn_attention(const RegionView& region, const Workshop& workshop) {
  const auto* op = region.node.op.as<ops::Attention>();
  const DeviceFacts& device = workshop.device()->facts();
  if (!op || device.features.generation < Generation::ampere || !is_alike(region, *op) ||
      !attention_kernel(region, workshop))
    return {};
  try {
    if (!dnn_attention_shape(*op, region.symbols)) return {};
  } catch (const Error&) {
    return {};  // of symbols that have no value nobody knows what will be
  }
  if (!has_dnn(*workshop.device()) || !has_dnn_attention()) return {};
  // The first is by warpgroups, the last one of single warps with tiles of 64 x 64, which is better for small problems
  // (BERT at batch 8: 5.3 us for 6.0). Those between, wider tiles of single warps, were never the fastest.
  constexpr int ranks[] = {0, 3};
  const double seconds = seconds_of_dnn_attention(region, *op, device);
  std::vector<TacticOffer> offers;
  for (const int rank : ranks) {
    TacticOffer& offer = offers.emplace_back();
    offer.seconds = seconds * (1 + 0.01 * rank);
    offer.parameters = {{"rank", rank}};
  }
  return offers;
}

std::shared_ptr<const Kernel> compile_dnn_attention(const RegionView& region, const TacticParameters& parameters,
                                                    const Workshop& workshop, PackedConstants&) {
  const auto& op = *region.node.op.as<ops::Attention>();
  const DType dtype = region.graph.type(region.node.inputs[0]).dtype;
  const int rank = static_cast<int>(parameters["rank"]);
  try {  // here, where others are compiled at the same time; preparing finds it made
    plan_of(workshop.device(), dtype, *dnn_attention_shape(op, region.symbols), rank);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::unsupported) throw;
  }
  return std::make_shared<DnnAttentionKernel>(op, dtype, rank, workshop.device(), attention_kernel(region, workshop));
}

}  // namespace

const CudaTactic dnn_attention_tactic{"cuda_dnn_attention", offer_dnn_attention, compile_dnn_attention};

}  // namespace camshaft::cuda
