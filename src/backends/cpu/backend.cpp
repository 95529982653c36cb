#include "backends/cpu/backend.h"

#include <fmt/format.h>

#include <algorithm>

#include "backends/cpu/device.h"
#include "backends/cpu/kernels/gemm/bf16_pairs.h"
#include "backends/cpu/passes.h"
#include "backends/cpu/tactic.h"
#include "backends/cpu/tactics/attention.h"
#include "backends/cpu/tactics/byte_table.h"
#include "backends/cpu/tactics/col2im.h"
#include "backends/cpu/tactics/collective.h"
#include "backends/cpu/tactics/column_convolution.h"
#include "backends/cpu/tactics/computed_norm.h"
#include "backends/cpu/tactics/conv_chain.h"
#include "backends/cpu/tactics/conv_planes.h"
#include "backends/cpu/tactics/conv_transpose.h"
#include "backends/cpu/tactics/conv_transpose_planes.h"
#include "backends/cpu/tactics/conv_weights.h"
#include "backends/cpu/tactics/convolution.h"
#include "backends/cpu/tactics/deform_conv.h"
#include "backends/cpu/tactics/determinant.h"
#include "backends/cpu/tactics/gated_convolution.h"
#include "backends/cpu/tactics/gather_matmul.h"
#include "backends/cpu/tactics/grid_sample.h"
#include "backends/cpu/tactics/grouped_convolution.h"
#include "backends/cpu/tactics/index.h"
#include "backends/cpu/tactics/integer_conv.h"
#include "backends/cpu/tactics/integer_matmul.h"
#include "backends/cpu/tactics/integer_weights.h"
#include "backends/cpu/tactics/interval_select.h"
#include "backends/cpu/tactics/matmul.h"
#include "backends/cpu/tactics/move.h"
#include "backends/cpu/tactics/normalize.h"
#include "backends/cpu/tactics/paged.h"
#include "backends/cpu/tactics/plugin.h"
#include "backends/cpu/tactics/pointwise.h"
#include "backends/cpu/tactics/pool.h"
#include "backends/cpu/tactics/recurrent.h"
#include "backends/cpu/tactics/reduce.h"
#include "backends/cpu/tactics/resize.h"
#include "backends/cpu/tactics/rotary_embedding.h"
#include "backends/cpu/tactics/stem_convolution.h"
#include "backends/cpu/tactics/top_k.h"
#include "backends/cpu/tactics/tree_ensemble.h"
#include "backends/cpu/tactics/weight_only_matmul.h"
#include "backends/cpu/tactics/weight_only_weights.h"
#include "compile/constants/step_fragments.h"
#include "compile/constants/weight_rows.h"

namespace camshaft::cpu {

namespace {

/// Every way of running a region on the CPU; "reference" is added for all.
constexpr const CpuTactic* all_tactics[] = {
    &gemm_tactic,
    &batch_gemm_tactic,
    &conv_tactic,
    &winograd_tactic,
    &depthwise_tactic,
    &conv_transpose_tactic,
    &plane_conv_transpose_tactic,
    &plane_conv_tactic,
    &depthwise_block_tactic,
    &column_conv_tactic,
    &column_conv_transpose_tactic,
    &kn2row_conv_tactic,
    &pointwise_tactic,
    &byte_table_tactic,
    &interval_select_tactic,
    &softmax_tactic,
    &layer_norm_tactic,
    &computed_norm_tactic,
    &group_norm_tactic,
    &reduce_tactic,
    &arg_reduce_tactic,
    &pool_tactic,
    &transpose_tactic,
    &expand_tactic,
    &slice_tactic,
    &concat_tactic,
    &pad_tactic,
    &index_map_tactic,
    &gather_tactic,
    &gather_elements_tactic,
    &resize_tactic,
    &integer_resize_tactic,
    &recurrent_tactic,
    &attention_tactic,
    &rotary_embedding_tactic,
    &find_keys_tactic,
    &gather_nd_tactic,
    &scatter_nd_tactic,
    &scatter_elements_tactic,
    &cumulative_tactic,
    &tensor_scatter_tactic,
    &paged_store_tactic,
    &paged_quantize_tactic,
    &paged_attention_tactic,
    &reverse_sequence_tactic,
    &top_k_tactic,
    &grid_sample_tactic,
    &col2im_tactic,
    &deform_conv_tactic,
    &determinant_tactic,
    &tree_ensemble_tactic,
    &collective_tactic,
    &grouped_conv_tactic,
    &pool_indices_tactic,
    &conv_chain_tactic,
    &gated_conv_tactic,
    &stem_conv_tactic,
    &integer_matmul_tactic,
    &weight_only_matmul_tactic,
    &integer_conv_tactic,
    &integer_depthwise_tactic,
    &integer_grouped_tactic,
    &max_pool_tactic,
    &dynamic_quantize_tactic,
    &gemm_bf16_tactic,
    &plain_matmul_tactic,
    &gather_matmul_tactic,
    &conv_bf16_tactic,
    &attention_bf16_tactic,
    &plugin_tactic,
};

/// The reference runs with double accumulation and no blocking to speak of: tens of times slower than a kernel.
constexpr double reference_penalty = 50;
constexpr std::string_view reference_name = "reference";

class CpuBackend final : public Backend {
 public:
  CpuBackend() : device_(describe_cpu()) {}

  const DeviceInfo& device() const override { return device_; }
  BackendPasses passes(DType /*storage*/, ops::Rounding rounding) const override { return cpu::passes(rounding); }

  std::vector<Tactic> tactics(const RegionView& region) const override {
    std::vector<Tactic> list;
    for (const CpuTactic* tactic : all_tactics)
      for (TacticOffer& offer : tactic->offers(region)) list.push_back(of_offer(*tactic, std::move(offer)));
    list.push_back(reference(region));
    // A kernel always goes before the reference, whatever the estimates say.
    std::stable_sort(list.begin(), list.end() - 1,
                     [](const Tactic& a, const Tactic& b) { return a.estimated_seconds < b.estimated_seconds; });
    return list;
  }

  std::optional<Tactic> find_tactic(const RegionView& region, std::string_view written) const override {
    const std::string_view name = written.substr(0, written.find('('));
    if (written == reference_name) return reference(region);
    for (const CpuTactic* known : all_tactics) {
      if (known->name() != name) continue;
      for (TacticOffer& offer : known->offers(region))
        if (Tactic tactic = of_offer(*known, std::move(offer)); tactic.str() == written) return tactic;
    }
    return std::nullopt;
  }

  std::shared_ptr<const Kernel> compile(const RegionView& region, const Tactic& tactic,
                                        PackedConstants& constants) const override {
    if (tactic.name == reference_name) return make_reference_kernel(region);
    for (const CpuTactic* known : all_tactics) {
      if (known->name() != tactic.name) continue;
      for (const TacticOffer& offer : known->offers(region))
        if (offer.parameters == tactic.parameters) return known->compile(region, tactic.parameters, constants);
    }
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the CPU has no tactic '{}' for {}", tactic.str(), to_string(region.node.op)));
  }

  bool gains_from(DType dtype) const override { return dtype == DType::i8; }
  bool gains_from_rounding(ops::Rounding rounding) const override {
    return rounding == ops::Rounding::bf16 && has_bf16_products();
  }
  bool can_unpack(const std::string& layout) const override { return layout.rfind("winograd", 0) != 0; }

  Tensor unpack(const PackedConstant& packed, DType dtype, const Dims& dims) const override {
    if (!can_unpack(packed.layout)) return {};
    // Beside an axis of 0 the others may be of any size: nobody may loop over those.
    if (element_count(dims) == 0) {
      if (!packed.bytes.empty()) throw_misfit(packed, dims);
      return Tensor(dtype, dims);
    }
    for (const auto unpack : {unpack_gemm, unpack_conv, unpack_grouped_conv, unpack_conv_transpose,
                              unpack_plane_conv_transpose, unpack_plane_conv, unpack_kn2row, unpack_depthwise_blocks,
                              unpack_recurrent, unpack_weight_rows, unpack_integer_weights, unpack_integer_depthwise,
                              unpack_integer_grouped, unpack_weight_only, unpack_step_fragments}) {
      Tensor raw = unpack(packed, dtype, dims);
      if (raw.defined()) return raw;
    }
    throw Error(ErrorCode::corrupt_engine,
                fmt::format("constant '{}' is stored in an unknown layout '{}'", packed.constant, packed.layout));
  }

 private:
  static Tactic of_offer(const CpuTactic& family, TacticOffer offer) {
    return {std::string(family.name()),  offer.seconds, offer.deviation,
            std::move(offer.parameters), Place::host,   offer.more_weight_bytes};
  }
  static Tactic reference(const RegionView& region) {
    return {std::string(reference_name),
            reference_penalty * (seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte)};
  }

  DeviceInfo device_;
};

}  // namespace

std::shared_ptr<const Backend> backend() {
  static const auto instance = std::make_shared<const CpuBackend>();
  return instance;
}

}  // namespace camshaft::cpu
