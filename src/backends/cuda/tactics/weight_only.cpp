// Products with weights of few bits, which stay as narrow as the model has them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "backends/cuda/tactics/expanded_product.h"
#include "backends/cuda/tactics/product_kernel.h"
#include "backends/cuda/tactics/weight_only_rows.h"
#include "compile/optimum.h"

namespace camshaft::cuda {

namespace {

// ---- few rows, and any number of them as several times few

class RowsKernel final : public Kernel {
 public:
  RowsKernel(const RegionView& region, const Workshop& workshop, const WeightOnlyView& view, const RowsChoice& choice,
             std::shared_ptr<const DeviceSteps> steps)
      : compiled_(workshop, view, choice, std::move(steps)) {
    ContractView contract = view.contract;
    for (int32_t i = 0; i < static_cast<int32_t>(region.node.inputs.size()); ++i)
      can_overwrite_.push_back(can_overwrite(region, contract, view.epilogue, i) &&
                               !(view.before && view.before->reads(static_cast<size_t>(i))));
  }
  Place place() const override { return Place::device; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override { return compiled_.prepare(shapes); }
  bool can_run_in_place(size_t i, size_t o) const override { return o == 0 && can_overwrite_[i]; }
  bool reads_slices(size_t i) const override {
    const WeightOnlyView& view = compiled_.view();
    return static_cast<int32_t>(i) == view.x || view.epilogue.reads(i) || (view.before && view.before->reads(i));
  }
  bool writes_slices(size_t o) const override { return o == 0; }
  bool reads_input(size_t i) const override { return compiled_.view().reads_input(i); }

 private:
  CompiledRows compiled_;
  std::vector<bool> can_overwrite_;
};

std::optional<WeightOnlyView> view_rows(const RegionView& region) {
  return is_chain(region.node) ? view_chained_weight_only(region) : view_weight_only(region);
}

std::vector<TacticOffer> offer_rows(const RegionView& region, const Workshop& workshop) {
  const auto view = view_rows(region);
  if (!view) return {};
  std::vector<TacticOffer> offers;
  for (const RowsChoice& choice : rows_choices(*view, rows_at_optimum(region, *view), workshop.device()->facts()))
    offers.push_back(
        {.parameters = choice.parameters(), .seconds = choice.seconds, .moves_steps = moves_steps_of(view->epilogue)});
  return offers;
}

std::shared_ptr<const Kernel> compile_rows(const RegionView& region, const TacticParameters& parameters,
                                           const Workshop& workshop, PackedConstants& constants) {
  const WeightOnlyView view = *view_rows(region);
  const RowsChoice choice{static_cast<int>(parameters["warps"]), static_cast<int>(parameters["splits"])};
  return std::make_shared<RowsKernel>(region, workshop, view, choice, bring_steps(region, view, workshop, constants));
}

// ---- many rows: blocks of a tile make floats of the weights' slices

std::optional<ProductView> view_steps(const RegionView& region, const DeviceFacts& device) {
  std::optional<WeightOnlyView> weights = view_weight_only(region);
  if (!weights || !weights->has_whole_zeros()) return std::nullopt;
  if (weights->x_dtype == DType::bf16 && !device.features.bf16_products) return std::nullopt;
  if (input_type(region, weights->x).shape.size() < 2) return std::nullopt;
  static const ops::MatMul by_columns{}, by_rows{false, true};
  ProductView view;
  view.a = weights->x;
  view.b = weights->steps;
  view.form.dtype = weights->x_dtype;
  view.form.tensor_cores = weights->x_dtype != DType::f32;
  const int64_t matrices = 64 / bit_width(weights->x_dtype);  // of a slice
  const bool is_one = weights->is_one_block();
  view.form.steps =
      StepForm{.bits = weights->bits(),
               .scale = weights->scale_dtype,
               .shared = static_cast<int>(is_one ? matrices : std::gcd(weights->matrices_of_block(), matrices)),
               .has_zeros = !weights->one_zero};
  view.steps = StepTerms{.scale = weights->scale,
                         .zero = weights->one_zero ? -1 : weights->zero,
                         .one_zero = weights->one_zero ? static_cast<uint32_t>(*weights->one_zero) : 0,
                         .chunks = weights->chunks(),
                         .blocks = weights->pitch(),
                         .matrices_of_block = is_one ? int64_t{1} << 27 : weights->matrices_of_block()};
  view.matmul = weights->op.transposed ? &by_rows : &by_columns;
  view.rows.emplace(weights->n, 1, weights->k, false, weights->x_dtype);
  view.epilogue = std::move(weights->epilogue);
  view.contract = std::move(weights->contract);
  view.contract.anchor_inputs = {view.a, view.b};
  return view;
}

// What making floats of steps takes, for each slice of k.
double seconds_of_steps(const TileChoice& choice, const ContractSize& size, const DeviceFacts& device) {
  constexpr double seconds_a_slice = 0.2e-6, slice = 64, blocks_beside = 2;
  const double tiles = std::ceil(size.m / choice.tile.m) * std::ceil(size.n / choice.tile.n) * size.batch;
  const double turns = std::max(1.0, tiles * choice.splits / (blocks_beside * device.multiprocessors));
  return turns * std::ceil(size.k / slice / choice.splits) * seconds_a_slice;
}

std::vector<TacticOffer> offer_tiles(const RegionView& region, const Workshop& workshop) {
  const DeviceFacts& device = workshop.device()->facts();
  const auto view = view_steps(region, device);
  if (!view) return {};
  const double least = seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
  std::vector<TacticOffer> offers;
  const ContractSize size = size_at_optimum(region, *view);
  for (const TileChoice& choice : tile_choices(view->form, size, device))
    offers.push_back({.parameters = choice.parameters(),
                      .seconds = std::max(choice.seconds, least + seconds_of_steps(choice, size, device)),
                      .moves_steps = moves_steps_of(view->epilogue)});
  return offers;
}

std::shared_ptr<const Kernel> compile_tiles(const RegionView& region, const TacticParameters& parameters,
                                            const Workshop& workshop, PackedConstants& constants) {
  const DeviceFacts& device = workshop.device()->facts();
  ProductView view = *view_steps(region, device);
  const ContractSize optimum = size_at_optimum(region, view);
  const std::vector<TileChoice> choices = tile_choices(view.form, optimum, device);
  const auto choice =
      std::find_if(choices.begin(), choices.end(), [&](const TileChoice& c) { return c.parameters() == parameters; });
  auto compiled = std::make_unique<CompiledProduct>(workshop, view, *choice, optimum, DeviceWeights());
  compiled->steps = bring_steps(region, *view_weight_only(region), workshop, constants);
  return product_kernel(region, std::move(view), std::move(compiled));
}

// ---- many rows: floats are made once, and multiplied by what multiplies floats

template <const CudaTactic& product_tactic>
std::vector<TacticOffer> offer_expanded(const RegionView& region, const Workshop& workshop) {
  const auto view = view_weight_only(region);
  const auto product = view ? ProductOfFloats::make(region, *view) : nullptr;
  if (!product) return {};
  std::vector<TacticOffer> offers = product_tactic.offers(product->region(), workshop);
  for (TacticOffer& offer : offers) offer.seconds += seconds_of_expanding(*view);
  return offers;
}

template <const CudaTactic& product_tactic>
std::shared_ptr<const Kernel> compile_expanded(const RegionView& region, const TacticParameters& parameters,
                                               const Workshop& workshop, PackedConstants& constants) {
  const WeightOnlyView view = *view_weight_only(region);
  const auto product = ProductOfFloats::make(region, view);
  return expanded_kernel(view, bring_steps(region, view, workshop, constants),
                         product_tactic.compile(product->region(), parameters, workshop, constants), workshop);
}

}  // namespace

const CudaTactic weight_only_tactic{"cuda_weight_only", offer_rows, compile_rows};
const CudaTactic weight_only_tile_tactic{"cuda_weight_only_tile", offer_tiles, compile_tiles};
const CudaTactic expanded_contract_tactic{"cuda_expanded_contract", offer_expanded<contract_tactic>,
                                          compile_expanded<contract_tactic>};
const CudaTactic expanded_blas_tactic{"cuda_expanded_blas", offer_expanded<blas_tactic>, compile_expanded<blas_tactic>};
const CudaTactic expanded_blas_sums_tactic{"cuda_expanded_blas_sums", offer_expanded<blas_sums_tactic>,
                                           compile_expanded<blas_sums_tactic>};

}  // namespace camshaft::cuda
