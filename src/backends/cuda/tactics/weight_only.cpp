// Products with weights of few bits, which stay as narrow as the model has them.
#include <algorithm>

#include "backends/cuda/tactics/expanded_product.h"
#include "backends/cuda/tactics/weight_only_rows.h"

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
      can_overwrite_.push_back(can_overwrite(region, contract, view.epilogue, i));
  }
  Place place() const override { return Place::device; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override { return compiled_.prepare(shapes); }
  bool can_run_in_place(size_t i, size_t o) const override { return o == 0 && can_overwrite_[i]; }
  bool reads_slices(size_t i) const override {
    return static_cast<int32_t>(i) == compiled_.view().x || compiled_.view().epilogue.reads(i);
  }
  bool writes_slices(size_t o) const override { return o == 0; }
  bool reads_input(size_t i) const override { return compiled_.view().reads_input(i); }

 private:
  CompiledRows compiled_;
  std::vector<bool> can_overwrite_;
};

std::vector<TacticOffer> offer_rows(const RegionView& region, const Workshop& workshop) {
  const auto view = view_weight_only(region);
  if (!view) return {};
  std::vector<TacticOffer> offers;
  for (const RowsChoice& choice : rows_choices(*view, rows_at_optimum(region, *view), workshop.device()->facts()))
    offers.push_back({.parameters = choice.parameters(),
                      .seconds = choice.seconds,
                      .moves_steps = moves_steps_of(view->epilogue)});
  return offers;
}

std::shared_ptr<const Kernel> compile_rows(const RegionView& region, const TacticParameters& parameters,
                                           const Workshop& workshop, PackedConstants& constants) {
  const WeightOnlyView view = *view_weight_only(region);
  const RowsChoice choice{static_cast<int>(parameters["warps"]), static_cast<int>(parameters["splits"])};
  return std::make_shared<RowsKernel>(region, workshop, view, choice, bring_steps(region, view, workshop, constants));
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
const CudaTactic expanded_contract_tactic{"cuda_expanded_contract", offer_expanded<contract_tactic>,
                                          compile_expanded<contract_tactic>};
const CudaTactic expanded_blas_tactic{"cuda_expanded_blas", offer_expanded<blas_tactic>, compile_expanded<blas_tactic>};
const CudaTactic expanded_blas_sums_tactic{"cuda_expanded_blas_sums", offer_expanded<blas_sums_tactic>,
                                           compile_expanded<blas_sums_tactic>};

}  // namespace camshaft::cuda
