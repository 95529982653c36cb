// Matrix products and convolutions on a GPU.
#include <algorithm>

#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/bring_weights.h"
#include "backends/cuda/tactics/product_kernel.h"
#include "backends/cuda/tactics/product_launch.h"
#include "compile/optimum.h"
#include "compile/plan/shape_check.h"

namespace camshaft::cuda {

namespace {

class ProductKernel final : public Kernel {
 public:
  ProductKernel(const RegionView& region, ProductView view, std::unique_ptr<const CompiledProduct> compiled)
      : view_(std::move(view)), compiled_(std::move(compiled)) {
    for (int32_t i = 0; i < static_cast<int32_t>(region.node.inputs.size()); ++i)
      can_overwrite_.push_back(can_overwrite(region, view_.contract, view_.epilogue, i));
    view_.contract.anchor = nullptr;  // the graph's, which may go
    if (view_.matmul) view_.matmul = &(matmul_ = *view_.matmul);
  }
  Place place() const override { return Place::device; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return product_launch(view_, *compiled_, shapes);
  }
  bool can_run_in_place(size_t i, size_t o) const override { return o == 0 && can_overwrite_[i]; }
  bool reads_slices(size_t i) const override {
    const bool is_dense = view_.form.window && view_.form.window->row_is_tap && static_cast<int32_t>(i) == view_.a;
    return !is_dense && reads_input(i) && static_cast<int32_t>(i) != view_.contract.moments;
  }
  bool writes_slices(size_t o) const override { return o == 0; }
  bool reads_input(size_t i) const override { return view_.reads_input(i); }

 private:
  ProductView view_;
  std::unique_ptr<const CompiledProduct> compiled_;
  ops::MatMul matmul_;
  std::vector<bool> can_overwrite_;
};

// What dense operands and results let be read and written by 16 aligned bytes, as far as sizes are known.
Aligned aligned_of(const RegionView& region, const ProductView& view) {
  const auto columns = view.contract.result.shape.back().as_constant();
  const Aligned most = columns && *columns % 8 != 0 ? Aligned::slices : Aligned::all;
  const int64_t chunk = 128 / bit_width(view.form.dtype);
  const auto fits = [&](int32_t input) {
    const auto size = input_type(region, input).shape.back().as_constant();
    return !size || *size % chunk == 0;
  };
  if (view.conv) {
    if (view.window[1] % chunk != 0) return Aligned::nothing;
    return view.conv->groups == 1 || view.window[0] / view.conv->groups % 8 == 0 ? most : Aligned::slices;
  }
  const bool b = view.rows || ((view.form.b_by_columns || view.matmul->transpose_b) && fits(view.b));
  return !view.matmul->transpose_a && fits(view.a) && b ? most : Aligned::nothing;
}

std::optional<ProductView> view_any_product(const RegionView& region, const DeviceFacts& device) {
  auto view = view_product(region, device);
  if (!view) view = view_byte_product(region, device);
  return view ? std::move(view) : view_float8_product(region, device);
}

// What the sums of bytes of each column begin with: the bias, and what the zero point of A adds to them.
// Σ (a - zero) · b = Σ a · b - zero · Σ b. Sums wrap.
std::vector<int32_t> begin_of_sums(const RegionView& region, const ProductView& view, std::span<const std::byte> rows) {
  const WeightRows& layout = *view.rows;
  constexpr int64_t columns_at_once = 8;
  std::vector<int32_t> begin(
      static_cast<size_t>((layout.rows + columns_at_once - 1) / columns_at_once * columns_at_once));
  const Tensor* bias = view.bytes->bias < 0 ? nullptr : region.constant(static_cast<size_t>(view.bytes->bias));
  if (bias) require_equal(bias->size(), layout.rows, "the number of biases of a convolution");
  for (int64_t r = 0; r < layout.rows; ++r) {
    uint32_t sum = 0;
    const auto* row = reinterpret_cast<const int8_t*>(rows.data()) + r * layout.pitch;
    for (int64_t i = 0; i < layout.pitch && view.bytes->x_zero != 0; ++i) sum += static_cast<uint32_t>(row[i]);
    const auto first = bias ? static_cast<uint32_t>(bias->as<int32_t>()[r]) : 0;
    begin[static_cast<size_t>(r)] = static_cast<int32_t>(first - static_cast<uint32_t>(view.bytes->x_zero) * sum);
  }
  return begin;
}

std::vector<TacticOffer> offer_products(const RegionView& region, const Workshop& workshop) {
  const DeviceFacts& device = workshop.device()->facts();
  const auto view = view_any_product(region, device);
  if (!view) return {};
  const double least = seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
  const bool moves_steps = moves_steps_of(view->epilogue);
  std::vector<TacticOffer> offers;
  for (const TileChoice& choice : tile_choices(view->form, size_at_optimum(region, *view), device))
    offers.push_back(
        {.parameters = choice.parameters(), .seconds = std::max(choice.seconds, least), .moves_steps = moves_steps});
  return offers;
}

std::shared_ptr<const Kernel> compile_product(const RegionView& region, const TacticParameters& parameters,
                                              const Workshop& workshop, PackedConstants& constants) {
  const DeviceFacts& device = workshop.device()->facts();
  ProductView view = *view_any_product(region, device);
  const ContractSize optimum = size_at_optimum(region, view);
  const std::vector<TileChoice> choices = tile_choices(view.form, optimum, device);
  const auto choice =
      std::find_if(choices.begin(), choices.end(), [&](const TileChoice& c) { return c.parameters() == parameters; });
  DeviceWeights weights;
  std::shared_ptr<const DeviceBuffer> begin;
  if (view.rows) {
    const auto rows = pack_weight_rows(region, static_cast<size_t>(view.b), *view.rows, constants);
    weights = bring_weights(workshop.device(), rows);
    if (view.bytes) {
      const std::vector<int32_t> sums = begin_of_sums(region, view, rows);
      begin = std::make_shared<const DeviceBuffer>(
          upload(*workshop.device(), std::as_bytes(std::span(sums)), "the weights of an engine"));
    }
  }
  auto compiled =
      std::make_unique<CompiledProduct>(workshop, view, *choice, optimum, std::move(weights), std::move(begin));
  return product_kernel(region, std::move(view), std::move(compiled));
}

}  // namespace

std::shared_ptr<const Kernel> product_kernel(const RegionView& region, ProductView view, const Workshop& workshop,
                                             DeviceWeights weights) {
  const ContractSize optimum = size_at_optimum(region, view);
  const TileChoice choice = tile_choices(view.form, optimum, workshop.device()->facts()).front();
  auto compiled = std::make_unique<CompiledProduct>(workshop, view, choice, optimum, std::move(weights));
  return std::make_shared<ProductKernel>(region, std::move(view), std::move(compiled));
}

std::shared_ptr<const Kernel> product_kernel(const RegionView& region, ProductView view,
                                             std::unique_ptr<const CompiledProduct> compiled) {
  if (const Aligned aligned = aligned_of(region, view); aligned != Aligned::nothing && compiled->can_copy_tensors()) {
    compiled->tensor_function(aligned);
  } else {
    compiled->function(aligned);
  }
  return std::make_shared<ProductKernel>(region, std::move(view), std::move(compiled));
}

const CudaTactic contract_tactic{"cuda_contract", offer_products, compile_product};

}  // namespace camshaft::cuda
