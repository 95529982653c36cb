// A way of running regions on a GPU.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "backends/cuda/driver/kernel_cache.h"
#include "backends/cuda/driver/module.h"
#include "compile/backend.h"

namespace camshaft::cuda {

/// What tactics make kernels with.
class Workshop {
 public:
  /// `host`: the backend of what kernels leave to the host.
  Workshop(std::shared_ptr<const Device> device, Compiler compiler, KernelCache cache,
           std::shared_ptr<const Backend> host)
      : device_(std::move(device)), compiler_(std::move(compiler)), cache_(std::move(cache)), host_(std::move(host)) {}
  const std::shared_ptr<const Device>& device() const { return device_; }
  const Backend& host() const { return *host_; }
  /// Compiles a text for the device, or finds it compiled, and loads it, unless others have it in use.
  Module module(const std::string& name, const std::string& text) const {
    return modules_->get(*device_, text, [&] {
      return cache_.get(compiler_, {name, text, architecture(device_->facts().features.capability)});
    });
  }

 private:
  std::shared_ptr<const Device> device_;
  Compiler compiler_;
  KernelCache cache_;
  std::shared_ptr<const Backend> host_;
  std::unique_ptr<LoadedModules> modules_ = std::make_unique<LoadedModules>();
};

/// How a family of GPU kernels offers itself: one value a way of running a region, all listed in backend.cpp. Offers
/// must hold for every value of the symbols.
class CudaTactic {
 public:
  /// Seconds at the optimum shapes; nullopt when it cannot run this region.
  using Estimate = std::optional<double> (*)(const RegionView& region, const DeviceFacts& device);
  using Compile = std::shared_ptr<const Kernel> (*)(const RegionView& region, const Workshop& workshop);
  using CompileWithConstants = std::shared_ptr<const Kernel> (*)(const RegionView& region, const Workshop& workshop,
                                                                 PackedConstants& constants);
  using Offers = std::vector<TacticOffer> (*)(const RegionView& region, const Workshop& workshop);
  using CompileVariant = std::shared_ptr<const Kernel> (*)(const RegionView& region, const TacticParameters& parameters,
                                                           const Workshop& workshop, PackedConstants& constants);

  /// `name` is unique among the tactics of all backends.
  constexpr CudaTactic(std::string_view name, Estimate estimate, Compile compile)
      : name_(name), estimate_(estimate), compile_(compile) {}
  constexpr CudaTactic(std::string_view name, Estimate estimate, CompileWithConstants compile)
      : name_(name), estimate_(estimate), compile_with_constants_(compile) {}
  /// A tactic with variants: `offers` lists all that can run the region, whatever the cost model thinks of them, so
  /// that what a lock file names is found when the cost model has changed. The best guess first: it wins where
  /// estimates, or measurements, tie. Which of them are measured follows from the estimates. `compile` is given the
  /// parameters of one.
  constexpr CudaTactic(std::string_view name, Offers offers, CompileVariant compile)
      : name_(name), offers_(offers), compile_variant_(compile) {}

  std::string_view name() const { return name_; }
  std::vector<TacticOffer> offers(const RegionView& region, const Workshop& workshop) const;
  /// The kernel of one of offers(region). Throws Error(invalid_argument) when `parameters` are not among them.
  std::shared_ptr<const Kernel> compile(const RegionView& region, const TacticParameters& parameters,
                                        const Workshop& workshop, PackedConstants& constants) const;

 private:
  std::string_view name_;
  Estimate estimate_ = nullptr;
  Compile compile_ = nullptr;
  CompileWithConstants compile_with_constants_ = nullptr;
  Offers offers_ = nullptr;
  CompileVariant compile_variant_ = nullptr;
};

/// Between one kernel of a stream and the next.
constexpr double seconds_per_launch = 2e-6;
/// Of memory that is streamed: what an H200 reaches, halved for smaller devices.
constexpr double seconds_per_byte = 1 / 2e12;

extern const CudaTactic pointwise_tactic, fill_tactic;
extern const CudaTactic reduce_tactic, arg_reduce_tactic;
extern const CudaTactic softmax_tactic, layer_norm_tactic, group_norm_tactic, group_columns_tactic;
extern const CudaTactic contract_tactic, blas_tactic, blas_sums_tactic, float8_blas_tactic, dnn_tactic,
    depthwise_tactic, conv_transpose_tactic;
extern const CudaTactic few_rows_tactic;
extern const CudaTactic weight_only_tactic, weight_only_tile_tactic;
extern const CudaTactic expanded_contract_tactic, expanded_blas_tactic, expanded_blas_sums_tactic;
extern const CudaTactic chained_contract_tactic, chained_few_rows_tactic, chained_dnn_tactic, chained_blas_tactic,
    chained_blas_sums_tactic, chained_weight_only_tactic, chained_weight_only_tile_tactic,
    chained_expanded_contract_tactic, chained_expanded_blas_tactic, chained_expanded_blas_sums_tactic;
extern const CudaTactic transpose_tactic, expand_tactic, slice_tactic, concat_tactic, pad_tactic, index_map_tactic;
extern const CudaTactic gather_tactic, gather_elements_tactic, gather_nd_tactic;
extern const CudaTactic gather_matmul_tactic;
extern const CudaTactic scatter_nd_tactic, scatter_elements_tactic;
extern const CudaTactic pool_tactic, pool_indices_tactic, resize_tactic;
extern const CudaTactic dims_tactic, shape_tactic, range_tactic, cumulative_tactic;
extern const CudaTactic top_k_tactic;
extern const CudaTactic grid_sample_tactic, col2im_tactic;
extern const CudaTactic attention_tactic, dnn_attention_tactic, rotary_embedding_tactic, recurrent_tactic;
extern const CudaTactic squeeze_excite_tactic;
extern const CudaTactic collective_tactic;
extern const CudaTactic paged_store_tactic, paged_quantize_tactic, paged_attention_tactic, paged_update_tactic;

}  // namespace camshaft::cuda
