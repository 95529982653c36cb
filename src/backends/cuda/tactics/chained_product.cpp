// A pointwise layer and the product of what it gives, one after another: for more rows than those that a product may
// compute where it reads them (tactics/prologue.h).
#include <algorithm>

#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/prologue.h"
#include "base/divide_up.h"

namespace camshaft::cuda {

namespace {

constexpr int64_t between_alignment = 256;

class ChainedProductKernel final : public Kernel {
 public:
  ChainedProductKernel(const ChainedProduct& chained, std::shared_ptr<const Kernel> before,
                       std::shared_ptr<const Kernel> product)
      : before_{std::move(before), chained.inputs_of_before()},
        product_{std::move(product), chained.inputs_of_product()},
        between_(chained.between()) {}

  Place place() const override { return Place::device; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override;
  // The layer before is done by then.
  bool can_run_in_place(size_t i, size_t o) const override {
    return product_.reads(i) &&
           product_.all_of(i, [&](size_t own) { return product_.kernel->can_run_in_place(own, o); });
  }
  bool reads_slices(size_t i) const override {
    const auto reads = [](const Part& part, size_t input) {
      return part.all_of(input, [&](size_t own) { return part.kernel->reads_slices(own); });
    };
    return reads(before_, i) && reads(product_, i);
  }
  bool writes_slices(size_t o) const override { return product_.kernel->writes_slices(o); }
  bool reads_input(size_t i) const override {
    const auto reads = [](const Part& part, size_t input) {
      return !part.all_of(input, [&](size_t own) { return !part.kernel->reads_input(own); });
    };
    return reads(before_, i) || reads(product_, i);
  }

  struct Part {
    std::shared_ptr<const Kernel> kernel;
    std::vector<int32_t> inputs;  ///< the chain's, or -1

    bool reads(size_t input) const {
      return std::find(inputs.begin(), inputs.end(), static_cast<int32_t>(input)) != inputs.end();
    }
    template <class Predicate>
    bool all_of(size_t input, Predicate predicate) const {
      for (size_t own = 0; own < inputs.size(); ++own)
        if (inputs[own] == static_cast<int32_t>(input) && !predicate(own)) return false;
      return true;
    }
    /// Of the part, from those of the chain and what is between.
    template <class T>
    std::vector<T> own(std::span<const T> of_chain, const T& between) const {
      std::vector<T> made;
      for (const int32_t input : inputs) made.push_back(input < 0 ? between : of_chain[static_cast<size_t>(input)]);
      return made;
    }
  };

 private:
  Part before_, product_;
  TensorType between_;
};

class ChainedProductLaunch final : public Launch {
 public:
  ChainedProductLaunch(const ChainedProductKernel::Part& before, const ChainedProductKernel::Part& product,
                       const OperandShape& between, const KernelShapes& shapes)
      : of_before_(before), of_product_(product) {
    const std::span<const OperandShape> inputs(shapes.inputs);
    before_ = before.kernel->prepare({before.own(inputs, between), {between}, shapes.symbols, shapes.threads});
    product_ = product.kernel->prepare({product.own(inputs, between), shapes.outputs, shapes.symbols, shapes.threads});
    between_bytes_ = static_cast<size_t>(
        round_up(static_cast<int64_t>(byte_size(between.dtype, element_count(between.dims))), between_alignment));
    inputs_of_before_.resize(before.inputs.size());
    inputs_of_product_.resize(product.inputs.size());
  }

  size_t workspace_bytes() const override {
    return between_bytes_ + std::max(before_->workspace_bytes(), product_->workspace_bytes());
  }

  void run(const LaunchArguments& a) override {
    std::byte *between = a.workspace, *workspace = a.workspace + between_bytes_;
    fill(of_before_, a, between, inputs_of_before_);
    fill(of_product_, a, between, inputs_of_product_);
    before_->run({inputs_of_before_, {&between, 1}, workspace, a.pool, a.cancellation, a.queue, a.source});
    product_->run({inputs_of_product_, a.outputs, workspace, a.pool, a.cancellation, a.queue, a.source});
  }

 private:
  static void fill(const ChainedProductKernel::Part& part, const LaunchArguments& a, const std::byte* between,
                   std::vector<const std::byte*>& to) {
    for (size_t i = 0; i < part.inputs.size(); ++i)
      to[i] = part.inputs[i] < 0 ? between : a.inputs[static_cast<size_t>(part.inputs[i])];
  }

  const ChainedProductKernel::Part &of_before_, &of_product_;
  std::unique_ptr<Launch> before_, product_;
  size_t between_bytes_ = 0;
  std::vector<const std::byte*> inputs_of_before_, inputs_of_product_;
};

std::unique_ptr<Launch> ChainedProductKernel::prepare(const KernelShapes& shapes) const {
  OperandShape between{between_.dtype, {}};
  for (const Dim& d : between_.shape) between.dims.push_back(d.evaluate(*shapes.symbols));
  return std::make_unique<ChainedProductLaunch>(before_, product_, between, shapes);
}

template <const CudaTactic& product_tactic>
std::vector<TacticOffer> offer_chained(const RegionView& region, const Workshop& workshop) {
  const auto chained = ChainedProduct::of(region);
  if (!chained) return {};
  const std::vector<TacticOffer> before = pointwise_tactic.offers(chained->before(), workshop);
  if (before.empty()) return {};
  std::vector<TacticOffer> offers = product_tactic.offers(chained->product(), workshop);
  for (TacticOffer& offer : offers) offer.seconds += before.front().seconds;
  return offers;
}

template <const CudaTactic& product_tactic>
std::shared_ptr<const Kernel> compile_chained(const RegionView& region, const TacticParameters& parameters,
                                              const Workshop& workshop, PackedConstants& constants) {
  const auto chained = ChainedProduct::of(region);
  return std::make_shared<ChainedProductKernel>(
      *chained, pointwise_tactic.compile(chained->before(), {}, workshop, constants),
      product_tactic.compile(chained->product(), parameters, workshop, constants));
}

}  // namespace

const CudaTactic chained_contract_tactic{"cuda_chained_contract", offer_chained<contract_tactic>,
                                         compile_chained<contract_tactic>};
const CudaTactic chained_few_rows_tactic{"cuda_chained_few_rows", offer_chained<few_rows_tactic>,
                                         compile_chained<few_rows_tactic>};
const CudaTactic chained_blas_tactic{"cuda_chained_blas", offer_chained<blas_tactic>, compile_chained<blas_tactic>};
const CudaTactic chained_blas_sums_tactic{"cuda_chained_blas_sums", offer_chained<blas_sums_tactic>,
                                          compile_chained<blas_sums_tactic>};
const CudaTactic chained_dnn_tactic{"cuda_chained_dnn", offer_chained<dnn_tactic>, compile_chained<dnn_tactic>};
const CudaTactic chained_weight_only_tactic{"cuda_chained_weight_only", offer_chained<weight_only_tactic>,
                                            compile_chained<weight_only_tactic>};
const CudaTactic chained_weight_only_tile_tactic{
    "cuda_chained_weight_only_tile", offer_chained<weight_only_tile_tactic>, compile_chained<weight_only_tile_tactic>};
const CudaTactic chained_expanded_contract_tactic{"cuda_chained_expanded_contract",
                                                  offer_chained<expanded_contract_tactic>,
                                                  compile_chained<expanded_contract_tactic>};
const CudaTactic chained_expanded_blas_tactic{"cuda_chained_expanded_blas", offer_chained<expanded_blas_tactic>,
                                              compile_chained<expanded_blas_tactic>};
const CudaTactic chained_expanded_blas_sums_tactic{"cuda_chained_expanded_blas_sums",
                                                   offer_chained<expanded_blas_sums_tactic>,
                                                   compile_chained<expanded_blas_sums_tactic>};

}  // namespace camshaft::cuda
