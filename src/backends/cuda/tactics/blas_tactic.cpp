// Matrix products by cuBLASLt: for those that are large, and whose epilogue it has.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "backends/cuda/libraries/blas.h"
#include "backends/cuda/tactic.h"
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

int64_t count(int64_t value, const char* what) {
  constexpr int64_t most = int64_t{1} << 31;
  if (value >= most)
    throw Error(ErrorCode::unsupported, fmt::format("{} of {} is more than cuBLASLt counts", what, value));
  return value;
}

void set_matrices(BlasProblem& p, const ProductView& view, const KernelShapes& shapes) {
  const OperandShape &a = shapes.inputs[static_cast<size_t>(view.a)], &b = shapes.inputs[static_cast<size_t>(view.b)],
                     &c = shapes.outputs[0];
  const bool ta = view.matmul->transpose_a, tb = view.matmul->transpose_b;
  const auto rows = [](const OperandShape& s) { return s.dims[s.dims.size() - 2]; };
  const auto lead = [](const OperandShape& s) { return Dims(s.dims.begin(), s.dims.end() - 2); };
  p.k = ta ? rows(a) : a.dims.back();
  require_equal(p.k, tb ? b.dims.back() : rows(b), "the size that matmul sums over");
  require_equal(rows(c), ta ? a.dims.back() : rows(a), "the number of rows of a matmul");
  require_equal(p.n, tb ? rows(b) : b.dims.back(), "the number of columns of a matmul");
  require_broadcast(lead(a), lead(c));
  require_broadcast(lead(b), lead(c));
  const int64_t matrices = element_count(lead(c)), of_a = element_count(lead(a)), of_b = element_count(lead(b));
  p.a.is_transposed = ta;
  p.b.is_transposed = tb;
  p.b.pitch = b.pitch();
  // One matrix of all rows where they follow each other and B is the same for all.
  if (!ta && of_b == 1 && of_a == matrices) return;
  p.batch = count(matrices, "a number of matrices");
  p.m = rows(c);
  p.a.batch_stride = of_a == 1 ? 0 : rows(a) * a.pitch();
  p.b.batch_stride = of_b == 1 ? 0 : rows(b) * b.pitch();
}

void set_pixels(BlasProblem& p, const ProductView& view, const KernelShapes& shapes) {
  p.k = view.window[1];
  require_equal(shapes.inputs[static_cast<size_t>(view.a)].dims.back(), p.k,
                "the number of input channels of a convolution");
  if (const auto& inputs = view.contract.anchor_inputs; inputs.size() > 2 && inputs[2] >= 0)
    require_equal(shapes.inputs[static_cast<size_t>(inputs[2])].dims[0], p.n, "the number of biases of a convolution");
}

BlasProblem problem_of(const LibraryView& view, const KernelShapes& shapes) {
  const ProductView& product = view.product;
  const OperandShape& c = shapes.outputs[0];
  BlasProblem p;
  p.dtype = product.form.dtype;
  p.result = product.epilogue.result;
  p.n = count(c.dims.back(), "a number of columns");
  p.m = element_count(Dims(c.dims.begin(), c.dims.end() - 1));
  p.a.pitch = shapes.inputs[static_cast<size_t>(product.a)].pitch();
  if (product.conv) {
    set_pixels(p, product, shapes);
  } else {
    set_matrices(p, product, shapes);
  }
  count(p.m, "a number of rows");
  if (product.rows) p.b = {.pitch = product.rows->pitch, .is_transposed = true};
  p.c = {.pitch = c.pitch(), .batch_stride = p.m * c.pitch()};
  p.alpha = static_cast<float>(view.linear.alpha);
  if (const int32_t residual = view.input_of(view.linear.residual); residual >= 0) {
    const OperandShape& shape = shapes.inputs[static_cast<size_t>(residual)];
    require_broadcast(shape.dims, c.dims);
    p.beta = static_cast<float>(view.linear.beta);
    p.residual = {.pitch = shape.pitch(), .batch_stride = p.m * shape.pitch()};
  }
  p.has_bias = view.linear.bias >= 0;
  if (view.linear.activation == Activation::relu) p.activation = api::epilogue_relu;
  if (view.linear.activation == Activation::gelu_by_tanh) p.activation = api::epilogue_gelu;
  return p;
}

class BlasLaunch final : public Launch {
 public:
  BlasLaunch(const LibraryOperands& operands, const KernelShapes& shapes, LibraryChoice choice) : operands_(operands) {
    BlasProblem problem = problem_of(operands.view(), shapes);
    problem.tf32 = choice.tf32;
    if (problem.m == 0 || problem.n == 0 || problem.batch == 0) return;
    aligned_.emplace(operands.device(), problem, 16, choice.rank);
    // Slices and what the caller binds may begin anywhere, and then it is too late to look for an algorithm.
    any_.emplace(operands.device(), problem, narrow(bit_width(problem.dtype)) / 8, choice.rank);
  }

  size_t workspace_bytes() const override {
    return aligned_ ? std::max(aligned_->workspace_bytes(), any_->workspace_bytes()) : 0;
  }

  void run(const LaunchArguments& arguments) override {
    if (!aligned_) return;
    const LibraryAddresses at = operands_.bind(arguments);
    (at.are_aligned() ? aligned_ : any_)->run(stream_of(arguments), at);
  }

 private:
  const LibraryOperands& operands_;
  std::optional<BlasProduct> aligned_, any_;  // by where the operands of a run lie
};

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
    const BlasProblem problem = problem_of(operands.view(), shapes);
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
