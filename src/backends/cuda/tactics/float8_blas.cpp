// Products of 8-bit floats by cuBLASLt, which scales all sums or each column: for those whose epilogue is a bias, a
// residual and a result of 16 bits.
#include <algorithm>
#include <cstdio>
#include <optional>

#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/blas_launch.h"
#include "backends/cuda/tactics/library_product.h"
#include "compile/optimum.h"

namespace camshaft::cuda {

namespace {

using Kind = ScalarInstruction::Kind;
using F = ScalarFunction;

// From cuBLAS 12.9 on.
bool has_scales_of_rows() {
  int major = 0, minor = 0;
  if (std::sscanf(blas_library().version.c_str(), "%d.%d", &major, &minor) != 2) return false;
  constexpr int first_major = 12, first_minor = 9;
  return major > first_major || (major == first_major && minor >= first_minor);
}

// cast(sum · scale + bias + residual), whose terms may be left out but for the scale.
struct ScaledEpilogue {
  int32_t scale = -1;  ///< the index in EpilogueView::loads; -1: a number
  float number = 1;
  int32_t bias = -1, residual = -1;
};

class ScaleMatcher {
 public:
  explicit ScaleMatcher(const EpilogueView& view) : view_(view) {}

  std::optional<ScaledEpilogue> match() const {
    const int32_t last = view_.program.outputs.at(0);
    if (at(last).kind != Kind::cast || at(last).dtype != view_.result) return std::nullopt;
    ScaledEpilogue found;
    int32_t rest = at(last).a;
    while (is(rest, F::add)) {
      const int32_t a = at(rest).a, b = at(rest).b;
      if (take_term(a, found)) {
        rest = b;
      } else if (take_term(b, found)) {
        rest = a;
      } else {
        return std::nullopt;
      }
    }
    if (!is(rest, F::mul)) return std::nullopt;
    const int32_t a = at(rest).a, b = at(rest).b, scale = a == 0 ? b : a;
    if ((a != 0) == (b != 0)) return std::nullopt;
    if (at(scale).kind == Kind::constant) {
      found.number = static_cast<float>(at(scale).number);
      return found;
    }
    if (at(scale).kind != Kind::load || !is_of_columns(at(scale).a - 1) || at(scale).dtype != DType::f32)
      return std::nullopt;
    found.scale = at(scale).a - 1;
    return found;
  }

 private:
  const ScalarInstruction& at(int32_t i) const { return view_.program.instructions[static_cast<size_t>(i)]; }
  bool is(int32_t i, F function) const { return at(i).kind == Kind::apply && at(i).function == function; }
  bool is_of_columns(int32_t load) const {
    const auto l = static_cast<size_t>(load);
    return view_.layouts[l] == EpilogueView::Layout::columns && view_.constant[l];
  }

  bool take_term(int32_t i, ScaledEpilogue& to) const {
    const ScalarInstruction& term = at(i);
    if (term.kind == Kind::load && term.a > 0 && term.dtype == DType::f32 && is_of_columns(term.a - 1) && to.bias < 0) {
      to.bias = term.a - 1;
      return true;
    }
    if (term.kind != Kind::cast || term.dtype != DType::f32 || to.residual >= 0) return false;
    const ScalarInstruction& narrow = at(term.a);
    if (narrow.kind != Kind::load || narrow.a <= 0 || narrow.dtype != view_.result ||
        view_.layouts[static_cast<size_t>(narrow.a) - 1] != EpilogueView::Layout::dense)
      return false;
    to.residual = narrow.a - 1;
    return true;
  }

  const EpilogueView& view_;
};

struct Float8Library {
  LibraryView view;
  std::vector<float> scales;  // of the columns; none where alpha is the scale of all
};

std::optional<Float8Library> view_float8_library(const RegionView& region, const DeviceFacts& device) {
  auto product = view_float8_product(region, device);
  if (!product || product->form.dtype != DType::f8e4m3 || product->form.window ||
      (product->conv && product->conv->groups != 1))
    return std::nullopt;
  const EpilogueView& epilogue = product->epilogue;
  const auto columns = product->contract.result.shape.back().as_constant();
  constexpr int64_t whole = 16;
  if ((epilogue.result != DType::f16 && epilogue.result != DType::bf16) || !columns || *columns % whole != 0 ||
      product->rows->pitch != product->rows->taps * product->rows->channels)
    return std::nullopt;
  const auto scaled = ScaleMatcher(epilogue).match();
  if (!scaled) return std::nullopt;
  const auto constant_of = [&](int32_t load) {
    return region.constant(static_cast<size_t>(epilogue.loads[static_cast<size_t>(load)]));
  };
  std::vector<float> scales;
  if (scaled->scale >= 0) {
    const Tensor* constant = constant_of(scaled->scale);
    if (!constant || constant->size() != *columns || !has_scales_of_rows()) return std::nullopt;
    scales.assign(constant->as<float>(), constant->as<float>() + *columns);
  }
  LibraryView view{.product = std::move(*product), .linear = {}};
  view.linear.alpha = static_cast<double>(scaled->number);
  view.linear.bias = scaled->bias;
  view.linear.residual = scaled->residual;
  view.linear.beta = scaled->residual >= 0 ? 1 : 0;
  if (scaled->bias >= 0) {
    view.narrows_bias = true;
    if (!can_narrow_bias(region, view.input_of(scaled->bias), view.product.epilogue.result)) return std::nullopt;
  }
  return Float8Library{std::move(view), std::move(scales)};
}

// Not fitted: twice as fast as products of f16.
double seconds_of_float8(const RegionView& region, const ProductView& view, const DeviceFacts& device) {
  const ContractSize size = size_at_optimum(region, view);
  constexpr double of_one = 9e12, start = 3e-6;
  return seconds_per_launch + std::max({start, 2 * size.m * size.n * size.k / (of_one * device.multiprocessors),
                                        0.75 * bytes_at_optimum(region) * seconds_per_byte});
}

std::vector<TacticOffer> offer_float8(const RegionView& region, const Workshop& workshop) {
  const DeviceFacts& device = workshop.device()->facts();
  if (!has_blas(*workshop.device())) return {};
  const auto library = view_float8_library(region, device);
  if (!library) return {};
  const int ranks = library->scales.empty() ? 4 : 1;  // of those with scales of columns there is one
  return library_offers(library->view.product, ranks,
                        [&](bool) { return seconds_of_float8(region, library->view.product, device); });
}

std::shared_ptr<const Kernel> compile_float8(const RegionView& region, const TacticParameters& parameters,
                                             const Workshop& workshop, PackedConstants& constants) {
  Float8Library library = *view_float8_library(region, workshop.device()->facts());
  const LibraryChoice choice = library_choice(library.view.product, parameters);
  std::shared_ptr<const DeviceBuffer> scales;
  if (!library.scales.empty())
    scales = std::make_shared<const DeviceBuffer>(
        upload(*workshop.device(), std::as_bytes(std::span(library.scales)), "the weights of an engine"));
  return library_kernel(region, std::move(library.view), workshop, constants, false,
                        [choice, scales](const LibraryOperands& operands, const KernelShapes& shapes) {
                          return std::make_unique<BlasLaunch>(operands, shapes, choice, scales.get());
                        });
}

}  // namespace

const CudaTactic float8_blas_tactic{"cuda_float8_blas", offer_float8, compile_float8};

}  // namespace camshaft::cuda
