// Matrix products by cuBLASLt: for those that are large, and whose epilogue it has.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/blas_launch.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/library_product.h"
#include "backends/cuda/tactics/narrow.h"
#include "compile/optimum.h"
#include "compile/plan/shape_check.h"

namespace camshaft::cuda {

namespace {

using Activation = KnownActivation;

const Shape& shape_of(const RegionView& region, int32_t i) {
  return region.graph.shape(region.node.inputs[static_cast<size_t>(i)]);
}

// Whether the matrices of an operand are one for all of the result's, or one for each.
bool is_one(const Shape& operand) {
  return std::all_of(operand.begin(), operand.end() - 2, [](const Dim& d) { return d == Dim(1); });
}
bool is_one_for_each(const Shape& operand, const Shape& result) {
  return operand.size() == result.size() && std::equal(operand.begin(), operand.end() - 2, result.begin());
}

bool is_batch(const RegionView& region, const ProductView& view) {
  if (view.conv) return true;
  const Shape &a = shape_of(region, view.a), &b = shape_of(region, view.b), &c = view.contract.result.shape;
  const auto k = a[a.size() - (view.matmul->transpose_a ? 2 : 1)].as_constant();
  return k && *k > 0 && (is_one(a) || is_one_for_each(a, c)) && (is_one(b) || is_one_for_each(b, c));
}

std::optional<LibraryView> view_blas(const RegionView& region, const DeviceFacts& device) {
  auto view = view_library(region, device);
  if (!view || view->product.form.window || !is_batch(region, view->product)) return std::nullopt;
  if (!view->linear.activation) return view;
  switch (*view->linear.activation) {
    case Activation::relu:  // in half precision it makes 0 of NaN (cuBLAS 13.1)
      return view->product.epilogue.result == DType::f32 ? std::move(view) : std::nullopt;
    case Activation::gelu_by_tanh:  // its tanh is an approximation that f32 would show
      return view->product.epilogue.result == DType::f32 ? std::nullopt : std::move(view);
    default:
      return std::nullopt;
  }
}

// As measured on an H200: in f16 at least 3 µs, more for long sums, which its small tiles take one after the other, and
// 650 TFLOP/s for large products. A little more than that, for kernels of our own start before the last one ends.
// TF32 is taken to run at half that rate.
double seconds_of_blas(const RegionView& region, const LibraryView& view, const DeviceFacts& device, bool tf32) {
  const ContractSize size = size_at_optimum(region, view.product);
  const bool is_f32 = view.product.form.dtype == DType::f32 && !tf32;
  const Generation generation = device.features.generation;
  const double of_one = generation >= Generation::hopper   ? (is_f32 ? 0.3e12 : 4.9e12)
                        : generation >= Generation::ampere ? (is_f32 ? 0.13e12 : 2.1e12)
                                                           : (is_f32 ? 0.1e12 : 0.8e12);
  const double flops = (tf32 ? 4 : 2) * size.m * size.n * size.k * size.batch;
  constexpr double seconds_in_doubt = 0.6e-6;
  return seconds_per_launch + seconds_in_doubt +
         std::max({1e-6 + size.k * (is_f32 ? 2.6e-9 : 0.9e-9), flops / (of_one * device.multiprocessors),
                   0.75 * bytes_at_optimum(region) * seconds_per_byte});
}

std::vector<TacticOffer> offer_blas(const RegionView& region, const Workshop& workshop) {
  const DeviceFacts& device = workshop.device()->facts();
  const auto view = view_blas(region, device);
  if (!view || !has_blas(*workshop.device())) return {};
  constexpr int ranks = 4;
  return library_offers(view->product, ranks, [&](bool tf32) { return seconds_of_blas(region, *view, device, tf32); });
}

std::shared_ptr<const Kernel> compile_blas(const RegionView& region, const TacticParameters& parameters,
                                           const Workshop& workshop, PackedConstants& constants) {
  LibraryView view = *view_blas(region, workshop.device()->facts());
  const LibraryChoice choice = library_choice(view.product, parameters);
  return library_kernel(region, std::move(view), workshop, constants, true,
                        [choice](const LibraryOperands& operands, const KernelShapes& shapes) {
                          return std::make_unique<BlasLaunch>(operands, shapes, choice);
                        });
}

// ---- the sums alone, and a kernel of ours for what comes behind them

// Of a product that the library has, with an epilogue that it has not, whose result can hold the sums meanwhile.
std::optional<LibraryView> view_sums(const RegionView& region, const DeviceFacts& device) {
  if (view_blas(region, device)) return std::nullopt;
  auto product = view_product(region, device);
  if (!product || product->form.window || (product->conv && product->conv->groups != 1) || !is_batch(region, *product))
    return std::nullopt;
  const EpilogueView& epilogue = product->epilogue;
  if (epilogue.result != product->form.dtype || epilogue.result == DType::f32 || epilogue.norm ||
      epilogue.gives_moments)
    return std::nullopt;
  return LibraryView{.product = std::move(*product), .linear = {}};
}

struct Finish {
  Function aligned, any;
};

class SumsLaunch final : public Launch {
 public:
  SumsLaunch(const LibraryOperands& operands, const Finish& finish, const KernelShapes& shapes, LibraryChoice choice)
      : sums_(operands, shapes, choice), finish_(finish), epilogue_(operands.view().product.epilogue, shapes) {
    const BlasProblem problem = blas_problem(operands.view(), shapes);
    constexpr int64_t most = int64_t{1} << 31;
    const int64_t rows = problem.m * problem.batch, pieces = (problem.n + 7) / 8, pitch = shapes.outputs[0].pitch();
    if (rows * pieces >= most || pitch >= most)
      throw Error(ErrorCode::unsupported, "a product of more than 2^31 elements");
    p_.m = narrow(rows);
    p_.n = narrow(problem.n);
    p_.tiles = Divisor(narrow(std::max<int64_t>(pieces, 1)));
    p_.c_row = narrow(pitch);
    can_be_aligned_ = problem.n % 8 == 0 && pitch % 8 == 0 && epilogue_.can_be_vector();
    constexpr int64_t most_blocks = 1 << 16;  // then each takes several
    size_.threads = finish_threads;
    size_.blocks = narrow(std::min((rows * pieces + finish_threads - 1) / finish_threads, most_blocks));
  }

  size_t workspace_bytes() const override { return sums_.workspace_bytes(); }

  void run(const LaunchArguments& arguments) override {
    if (size_.blocks == 0) return;
    sums_.run(arguments);
    p_.c = arguments.outputs[0];
    p_.c_vector = can_be_aligned_ && is_aligned(arguments.outputs[0], 16);
    const bool aligned = epilogue_.bind(arguments, p_.operand) && p_.c_vector;
    void* argument = &p_;
    (aligned ? finish_.aligned : finish_.any).launch(stream_of(arguments), size_, {&argument, 1});
  }

 private:
  BlasLaunch sums_;
  const Finish& finish_;
  EpilogueOperands epilogue_;
  ContractParameters p_ = {};
  LaunchSize size_;
  bool can_be_aligned_ = false;
};

std::vector<TacticOffer> offer_sums(const RegionView& region, const Workshop& workshop) {
  const DeviceFacts& device = workshop.device()->facts();
  const auto view = view_sums(region, device);
  if (!view || !has_blas(*workshop.device())) return {};
  const ContractSize size = size_at_optimum(region, view->product);
  // Most of what is written has not left the cache when it is read again.
  const double bytes = 2 * size.m * size.n * size.batch * bit_width(view->product.epilogue.result) / 8;
  const double finish = seconds_per_launch + 0.5 * bytes * seconds_per_byte;
  constexpr int ranks = 2;
  return library_offers(view->product, ranks,
                        [&](bool tf32) { return seconds_of_blas(region, *view, device, tf32) + finish; });
}

std::shared_ptr<const Kernel> compile_sums(const RegionView& region, const TacticParameters& parameters,
                                           const Workshop& workshop, PackedConstants& constants) {
  LibraryView view = *view_sums(region, workshop.device()->facts());
  const EpilogueView& epilogue = view.product.epilogue;
  const auto function = [&](bool aligned) {
    return workshop.module("finish", finish_kernel_text(epilogue.result, aligned, finish_text(epilogue, aligned)))
        .function("finish");
  };
  const Finish finish{function(true), function(false)};
  const LibraryChoice choice = library_choice(view.product, parameters);
  return library_kernel(region, std::move(view), workshop, constants, true,
                        [finish, choice](const LibraryOperands& operands, const KernelShapes& shapes) {
                          return std::make_unique<SumsLaunch>(operands, finish, shapes, choice);
                        });
}

}  // namespace

const CudaTactic blas_tactic{"cuda_blas", offer_blas, compile_blas};
const CudaTactic blas_sums_tactic{"cuda_blas_sums", offer_sums, compile_sums};

}  // namespace camshaft::cuda
