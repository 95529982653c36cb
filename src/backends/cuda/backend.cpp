#include "backends/cuda/backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "backends/cuda/driver/device_limits.h"
#include "backends/cuda/driver/forked_child.h"
#include "backends/cuda/driver/queue.h"
#include "backends/cuda/driver/stopwatch.h"
#include "backends/cuda/libraries/nccl.h"
#include "backends/cuda/passes.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/plugin.h"
#include "ir/plugin_detour.h"
#include "source_hash.h"

namespace camshaft::cuda {

namespace {

constexpr const CudaTactic* all_tactics[] = {
    &pointwise_tactic,
    &fill_tactic,
    &contract_tactic,
    &few_rows_tactic,
    &blas_tactic,
    &blas_sums_tactic,
    &float8_blas_tactic,
    &dnn_tactic,
    &depthwise_tactic,
    &conv_transpose_tactic,
    // weights of few bits
    &weight_only_tactic,
    &weight_only_tile_tactic,
    &expanded_contract_tactic,
    &expanded_blas_tactic,
    &expanded_blas_sums_tactic,
    // pointwise layers and their products
    &chained_contract_tactic,
    &chained_few_rows_tactic,
    &chained_blas_tactic,
    &chained_blas_sums_tactic,
    &chained_dnn_tactic,
    &chained_weight_only_tactic,
    &chained_weight_only_tile_tactic,
    &chained_expanded_contract_tactic,
    &chained_expanded_blas_tactic,
    &chained_expanded_blas_sums_tactic,
    // reductions and norms
    &reduce_tactic,
    &arg_reduce_tactic,
    &softmax_tactic,
    &layer_norm_tactic,
    &group_norm_tactic,
    &group_columns_tactic,
    &attention_tactic,
    &dnn_attention_tactic,
    &rotary_embedding_tactic,
    &recurrent_tactic,
    &squeeze_excite_tactic,
    &paged_attention_tactic,
    // moves
    &transpose_tactic,
    &expand_tactic,
    &slice_tactic,
    &concat_tactic,
    &pad_tactic,
    &index_map_tactic,
    // positions that are data
    &gather_tactic,
    &gather_elements_tactic,
    &gather_nd_tactic,
    &gather_matmul_tactic,
    &scatter_nd_tactic,
    &scatter_elements_tactic,
    &paged_store_tactic,
    &paged_update_tactic,
    &paged_quantize_tactic,
    // windows of images
    &pool_tactic,
    &pool_indices_tactic,
    &resize_tactic,
    // numbers
    &dims_tactic,
    &shape_tactic,
    &range_tactic,
    &cumulative_tactic,
    &top_k_tactic,
    &grid_sample_tactic,
    &col2im_tactic,
    &plugin_tactic,
    &collective_tactic,
};

/// Waiting for the device and copies there and back: what a small step on the host costs between others on the device.
constexpr double seconds_of_detour = 3e-5;

class CudaBackend final : public Backend {
 public:
  CudaBackend(Workshop workshop, std::shared_ptr<const Backend> host)
      : workshop_(std::move(workshop)), host_(std::move(host)) {
    const DeviceFacts& facts = workshop_.device()->facts();
    info_.kind = "cuda";
    info_.id = DeviceId::gpu(facts.ordinal);
    info_.name = facts.name;
    info_.isa = architecture(facts.features.capability);
    info_.cores = host_->device().cores;
    info_.memory_bytes = facts.memory_bytes;
    info_.limits = limits_of(facts);
    info_.features = {fmt::format("{} multiprocessors", facts.multiprocessors)};
    info_.code = fmt::format("{}, GPU ({}), driver {}, NVRTC {}, cuBLASLt {}, cuDNN {}", host_->device().code,
                             CAMSHAFT_CUDA_SOURCE_HASH, driver_library().version, nvrtc_library().version,
                             blas_identity(), dnn_identity());
    // Backends live as long as the process, once nothing above has thrown.
    set_plugin_detour(info_.id, {plugin_facts(workshop_),
                                 [this](const PluginInstance& instance, const std::string& who, const PluginCall& call,
                                        std::byte fill) { run_plugin_alone(instance, who, call, fill, workshop_); }});
  }

  const DeviceInfo& device() const override { return info_; }
  std::unique_ptr<DeviceQueue> make_queue() const override {
    return std::make_unique<Queue>(workshop_.device(), [this] {
      return workshop_.module("small_copies", small_copies_text()).function("small_copies");
    });
  }
  std::unique_ptr<DeviceStopwatch> make_stopwatch(DeviceQueue& queue) const override {
    return std::make_unique<Stopwatch>(static_cast<Queue&>(queue).stream(),
                                       workshop_.module("touch", touch_text()).function("touch"));
  }
  LinkOffer link_offer() const override {
    LinkOffer offer;
    offer.device = workshop_.device()->facts().bus_id;
    if (const Library<api::Nccl>& library = nccl_library(); library.problem.empty()) {
      offer.kind = fmt::format("NCCL {}", library.version);
    } else {
      offer.problem = library.problem;
    }
    return offer;
  }
  std::vector<std::byte> make_link_key() const override { return make_nccl_key(); }
  std::shared_ptr<DeviceLink> make_link(int rank, int size, std::span<const std::byte> key) const override {
    return std::make_shared<NcclLink>(workshop_.device(), rank, size, key);
  }
  BackendPasses passes(DType storage, ops::Rounding rounding) const override {
    const DeviceFeatures& features = workshop_.device()->facts().features;
    return cuda::passes(storage, rounding, features.int8_products, features.fp8_products);
  }
  bool gains_from(DType dtype) const override {
    const DeviceFeatures& features = workshop_.device()->facts().features;
    return dtype == DType::f16 || (dtype == DType::bf16 && features.bf16_products) ||
           (dtype == DType::i8 && features.int8_products) || (dtype == DType::f8e4m3 && features.fp8_products);
  }
  bool gains_from_rounding(ops::Rounding rounding) const override {
    return rounding == ops::Rounding::tf32 && workshop_.device()->facts().features.tf32_products;
  }

  std::vector<Tactic> tactics(const RegionView& region) const override {
    std::vector<Tactic> list;
    for (const CudaTactic* tactic : all_tactics)
      for (TacticOffer& offer : tactic->offers(region, workshop_))
        list.push_back({.name = std::string(tactic->name()),
                        .estimated_seconds = offer.seconds,
                        .deviation = offer.deviation,
                        .parameters = std::move(offer.parameters),
                        .place = Place::device,
                        .moves_steps = offer.moves_steps});
    std::stable_sort(list.begin(), list.end(),
                     [](const Tactic& a, const Tactic& b) { return a.estimated_seconds < b.estimated_seconds; });
    const double detour = list.empty() ? 0 : seconds_of_detour;
    for (Tactic& tactic : host_->tactics(region)) {
      tactic.estimated_seconds += detour;
      list.push_back(std::move(tactic));
    }
    return list;
  }

  std::shared_ptr<const Kernel> compile(const RegionView& region, const Tactic& tactic,
                                        PackedConstants& constants) const override {
    if (tactic.place == Place::host) return host_->compile(region, tactic, constants);
    for (const CudaTactic* known : all_tactics)
      if (known->name() == tactic.name) return known->compile(region, tactic.parameters, workshop_, constants);
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the GPU has no tactic '{}' for {}", tactic.str(), to_string(region.node.op)));
  }

  bool can_unpack(const std::string& layout) const override { return host_->can_unpack(layout); }
  Tensor unpack(const PackedConstant& packed, DType dtype, const Dims& dims) const override {
    return host_->unpack(packed, dtype, dims);
  }

 private:
  Workshop workshop_;
  std::shared_ptr<const Backend> host_;
  DeviceInfo info_;
};

}  // namespace

std::shared_ptr<const Backend> backend(int ordinal, const std::shared_ptr<const Backend>& host) {
  refuse_in_forked_child();  // one that the parent made is of no use here, and its mutex may be held for ever
  static std::mutex mutex;
  static std::map<int, std::shared_ptr<const Backend>> all;
  const std::lock_guard lock(mutex);
  std::shared_ptr<const Backend>& made = all[ordinal];
  if (made) return made;
  const Library<api::Driver>& driver = driver_library();
  if (!driver.problem.empty()) throw Error(ErrorCode::unsupported, driver.problem);
  made = std::make_shared<CudaBackend>(
      Workshop(std::make_shared<const Device>(driver.functions, ordinal), Compiler(nvrtc_library()),
               KernelCache(KernelCache::default_folder()), host),
      host);
  return made;
}

int current_ordinal() {
  const Library<api::Driver>& driver = driver_library();
  return driver.problem.empty() ? current_ordinal(driver.functions).value_or(0) : 0;
}

}  // namespace camshaft::cuda
