// Operators over caches in blocks on a GPU. Grids follow from sizes: how long sequences are is read by the kernels.
#include "ir/ops/paged.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "backends/cuda/codegen/attention_text.h"
#include "backends/cuda/codegen/paged_text.h"
#include "backends/cuda/device/paged_parameters.h"
#include "backends/cuda/tactic.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/narrow.h"
#include "backends/cuda/tactics/strided_copy.h"
#include "base/divide_up.h"
#include "compile/layer_name.h"
#include "compile/optimum.h"
#include "compile/plan/paged_check.h"
#include "compile/region/move_view.h"
#include "ir/ops/move.h"
#include "ir/ops/strides.h"

namespace camshaft::cuda {

namespace {

struct StoreKernels {
  explicit StoreKernels(const Workshop& workshop)
      : device(workshop.device()), copies(std::make_shared<const CopyKernels>(workshop)) {
    const Module module = workshop.module("paged_store", paged_store_text());
    for (const int bytes : {1, 2, 4, 8, 16}) functions.push_back(module.function(fmt::format("store_rows_{}", bytes)));
  }
  std::shared_ptr<const Device> device;  // outlives the functions
  std::shared_ptr<const CopyKernels> copies;
  std::vector<Function> functions;  // by the logarithm of the bytes
};

std::optional<double> estimate_paged_store(const RegionView& region, const DeviceFacts&) {
  if (!region.node.op.as<ops::PagedStore>()) return std::nullopt;
  const DType dtype = region.graph.type(region.node.inputs[0]).dtype;
  if (!is_movable(dtype)) return std::nullopt;
  const double rows = elements_at_optimum(region, region.node.inputs[ops::PagedStore::in_rows]);
  return seconds_per_launch + 2 * rows * bit_width(dtype) / 8 * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_paged_store(const RegionView& region, const Workshop& workshop) {
  const auto make = [kernels = std::make_shared<const StoreKernels>(workshop),
                     layer = layer_name(region)](const KernelShapes& shapes) {
    const Dims &cache = shapes.inputs[0].dims, &rows = shapes.inputs[1].dims;
    check_paged_store(shapes);
    const int64_t width = width_of(shapes.inputs[0]), row_bytes = ops::product(cache, 2, cache.size()) * width;
    check_elements(row_bytes, "a row of a cache");
    PagedStoreParameters p;
    p.count = narrow(rows[0], "the rows for a cache");
    p.wide = shapes.inputs[2].dtype == DType::i64 ? 1 : 0;
    p.places = cache[0] * cache[1];
    const bool is_empty = p.count == 0 || row_bytes == 0;
    const StridedCopy copy(kernels->copies, width, {{element_count(cache)}, {1}, {1}, 0});
    return function_launch([=](const LaunchArguments& a, Queue& queue) mutable {
      if (a.inputs[0] != a.outputs[0]) copy.run(queue.stream(), a.inputs[0], a.outputs[0]);
      if (is_empty) return;
      const std::byte *from = a.inputs[1], *slots = a.inputs[2];
      std::byte* to = a.outputs[0];
      const uintptr_t all =
          static_cast<uintptr_t>(row_bytes) | reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to) | 16;
      const auto bytes = static_cast<int64_t>(all & (~all + 1));  // the widest that all are multiples of
      p.chunks = static_cast<uint32_t>(row_bytes / bytes);
      Complaint complaint = queue.complaints().of(layer);
      void* const arguments[] = {&p, &from, &slots, &to, &complaint};
      constexpr uint32_t most_blocks = 1 << 16;
      kernels->functions[log_of(bytes)].launch(
          queue.stream(), {.blocks = std::min(p.count, most_blocks), .threads = paged_store_threads}, arguments);
    });
  };
  return device_kernel(make, true);
}

struct QuantizeKernels {
  QuantizeKernels(DType rows, DType cache, const Workshop& workshop)
      : device(workshop.device()), copies(std::make_shared<const CopyKernels>(workshop)) {
    quantize = workshop.module("paged_quantize", paged_quantize_text(rows, cache)).function("quantize_rows");
  }
  std::shared_ptr<const Device> device;  // outlives the functions
  std::shared_ptr<const CopyKernels> copies;
  Function quantize;
};

bool is_computed_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

std::optional<double> estimate_paged_quantize(const RegionView& region, const DeviceFacts&) {
  using Op = ops::PagedQuantize;
  if (!region.node.op.as<Op>() || region.node.outputs.size() != 2) return std::nullopt;
  const DType dtype = region.graph.type(region.node.inputs[Op::in_rows]).dtype;
  if (!is_computed_float(dtype)) return std::nullopt;
  const double elements = elements_at_optimum(region, region.node.inputs[Op::in_rows]);
  return seconds_per_launch + elements * (bit_width(dtype) / 8 + 1) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_paged_quantize(const RegionView& region, const Workshop& workshop) {
  using Op = ops::PagedQuantize;
  const auto type = [&](size_t i) { return region.graph.type(region.node.inputs[i]).dtype; };
  const auto make = [kernels = std::make_shared<const QuantizeKernels>(type(Op::in_rows), type(Op::in_cache), workshop),
                     layer = layer_name(region)](const KernelShapes& shapes) {
    check_paged_quantize(shapes);
    const Dims& cache = shapes.inputs[Op::in_cache].dims;
    check_elements(cache[2] * cache[3], "a row of a cache");
    PagedQuantizeParameters p;
    p.count = narrow(shapes.inputs[Op::in_rows].dims[0], "the rows for a cache");
    p.wide = shapes.inputs[Op::in_slots].dtype == DType::i64 ? 1 : 0;
    p.heads = narrow(cache[2]);
    p.size = narrow(cache[3]);
    p.least = Op::least;
    p.highest = Op::highest(shapes.inputs[Op::in_cache].dtype);
    p.places = cache[0] * cache[1];
    const StridedCopy codes(kernels->copies, 1, {{element_count(cache)}, {1}, {1}, 0});
    const StridedCopy scales(kernels->copies, sizeof(float),
                             {{element_count(shapes.inputs[Op::in_scales].dims)}, {1}, {1}, 0});
    return function_launch([=](const LaunchArguments& a, Queue& queue) mutable {
      if (a.inputs[Op::in_cache] != a.outputs[0]) codes.run(queue.stream(), a.inputs[Op::in_cache], a.outputs[0]);
      if (a.inputs[Op::in_scales] != a.outputs[1]) scales.run(queue.stream(), a.inputs[Op::in_scales], a.outputs[1]);
      if (p.count == 0 || p.heads == 0) return;
      const std::byte *rows = a.inputs[Op::in_rows], *slots = a.inputs[Op::in_slots];
      std::byte *to = a.outputs[0], *to_scales = a.outputs[1];
      Complaint complaint = queue.complaints().of(layer);
      void* const arguments[] = {&p, &rows, &slots, &to, &to_scales, &complaint};
      constexpr uint32_t most_blocks = 1 << 16;
      kernels->quantize.launch(queue.stream(),
                               {.blocks = std::min(p.count, most_blocks), .threads = paged_store_threads}, arguments);
    });
  };
  return device_kernel(make, OperandUse{.in_place = 2});
}

/// How few rows of a sequence are attended to, as in decoding.
struct PagedChoice {
  PagedTileSize tile;
  int cluster = 0;  ///< a tile's keys are shared out among so many blocks of a cluster at most; 0: parts meet in memory
  double seconds = 0;

  TacticParameters parameters() const {
    return {{"cluster", cluster}, {"warps", tile.warps_k}, {"keys", tile.keys}};
  }
};

constexpr int most_portable_cluster = 8, most_cluster = 16;

struct PagedAttentionKernels {
  PagedAttentionKernels(const PagedForm& form, const PagedChoice& choice, std::string layer_of_form,
                        const Workshop& workshop)
      : device(workshop.device()), cluster(choice.cluster), layer(std::move(layer_of_form)) {
    const auto compile = [&](const PagedTileSize& tile) {
      const auto most_shared = static_cast<unsigned>(device->facts().shared_bytes_per_block);
      return Compiled{tile, workshop.module("paged_attention", paged_attention_text(form, tile))
                              .function("attend", most_shared, cluster > most_portable_cluster)};
    };
    narrow = compile(choice.tile);
    if (!form.matrix_instructions) return;
    const PagedTileSize tile = wide_paged_tile(form);
    if (tile.shared_bytes <= device->facts().shared_bytes_per_block) wide = compile(tile);
  }

  struct Compiled {
    PagedTileSize tile;
    Function function;
  };
  std::shared_ptr<const Device> device;  // outlives the functions
  int cluster;
  std::string layer;
  std::optional<Compiled> wide;
  Compiled narrow;
};

class PagedAttentionLaunch final : public Launch {
 public:
  using Op = ops::PagedAttention;
  PagedAttentionLaunch(const Op& op, std::shared_ptr<const PagedAttentionKernels> kernels, const KernelShapes& shapes)
      : kernels_(std::move(kernels)) {
    const Dims &query = shapes.inputs[Op::in_query].dims, &keys = shapes.inputs[Op::in_keys].dims;
    const Dims &values = shapes.inputs[Op::in_values].dims, &table = shapes.inputs[Op::in_table].dims;
    check_paged_attention(op, shapes);
    for (size_t i = Op::in_sink; i <= Op::in_relative_bias; ++i) has_operand_[i - Op::in_sink] = has_scales(shapes, i);
    p_.tokens = narrow(query[0], "the tokens of paged_attention");
    p_.sequences = narrow(table[0], "the sequences of paged_attention");
    p_.width = narrow(table[1], "the width of a block table");
    p_.heads = narrow(op.heads, "the heads of paged_attention");
    p_.key_heads = narrow(keys[2], "the heads of paged_attention");
    p_.group = Divisor(narrow(op.heads / keys[2]));
    p_.block_size = Divisor(narrow(std::max<int64_t>(keys[1], 1), "the size of a block"));
    p_.blocks = keys[1] > 0 ? keys[0] : 0;
    narrow(table[1] * keys[1], "the length of a sequence");
    p_.window = static_cast<uint32_t>(std::min<int64_t>(op.window, most_elements - 1));
    p_.causal = op.causal ? 1 : 0;
    p_.scale = static_cast<float>(op.softcap > 0 ? op.scale / op.softcap : op.scale);
    p_.softcap = static_cast<float>(op.softcap);
    p_.bias_scale = static_cast<float>(op.softcap > 0 ? 1 / op.softcap : 1);
    if (has_operand_[Op::in_relative_bias - Op::in_sink])
      p_.reach = static_cast<int32_t>(narrow(shapes.inputs[Op::in_relative_bias].dims[1], "a relative bias") / 2);
    value_size_ = values[3];
    can_be_aligned_ = (keys[3] % 8 == 0 ? 3U : 0U) | (values[3] % 8 == 0 ? 4U : 0U);
    cut(query[0] * (op.heads / keys[2]), table[0], keys[2], table[1] * keys[1]);
  }

  size_t workspace_bytes() const override {
    if (p_.splits == 1 || p_.is_cluster != 0) return 0;
    return size_t{p_.tokens} * p_.heads * p_.splits * static_cast<size_t>(value_size_ + 2) * sizeof(float);
  }

  void run(const LaunchArguments& a) override {
    if (p_.tokens == 0) return;
    p_.aligned = 0;
    for (const size_t i : {size_t{0}, size_t{1}, size_t{2}})
      if (is_aligned(a.inputs[i], 16)) p_.aligned |= can_be_aligned_ & (1U << i);
    if (is_aligned(a.outputs[0], 16)) p_.aligned |= 8U;
    const std::byte* inputs[Op::in_relative_bias + 1] = {};
    for (size_t i = 0; i < Op::in_sink; ++i) inputs[i] = a.inputs[i];
    for (size_t i = Op::in_sink; i <= Op::in_relative_bias; ++i)
      if (has_operand_[i - Op::in_sink]) inputs[i] = a.inputs[i];
    std::byte *result = a.outputs[0], *partial = a.workspace, *counters = counters_.data();
    Queue& queue = *static_cast<Queue*>(a.queue);
    Complaint complaint = queue.complaints().of(kernels_->layer);
    void* const arguments[] = {&p_,        &inputs[0], &inputs[1], &inputs[2], &inputs[3],
                               &inputs[4], &inputs[5], &inputs[6], &inputs[7], &inputs[8],
                               &inputs[9], &result,    &partial,   &counters,  &complaint};
    function_->launch(queue.stream(), size_, arguments);
  }

 private:
  // Tiles of many rows read keys less often; those of few waste less on short sequences. Where there are too few of
  // these for the machine, each one's keys are split: as often as the longest sequence that the table has room for is
  // worth it.
  void cut(int64_t rows, int64_t sequences, int64_t key_heads, int64_t longest) {
    const bool is_wide = kernels_->wide && sequences > 0 && rows / sequences > 2 * kernels_->narrow.tile.rows;
    const PagedAttentionKernels::Compiled& kernel = is_wide ? *kernels_->wide : kernels_->narrow;
    const PagedTileSize& tile = kernel.tile;
    function_ = &kernel.function;
    const int64_t number = std::max<int64_t>(rows / tile.rows + sequences, 1), blocks = number * key_heads;
    constexpr int64_t most_heads = 65535;  // of the third axis of a grid
    if (key_heads > most_heads) throw Error(ErrorCode::unsupported, "paged_attention of 2^16 heads of keys, or more");
    narrow(rows * key_heads, "the rows of paged_attention");
    size_ = {.blocks = narrow(number, "the tiles of paged_attention"),
             .threads = tile.threads(),
             .shared_bytes = tile.shared_bytes};
    size_.blocks_z = narrow(key_heads);
    p_.own_bytes = tile.shared_bytes;
    const int64_t multiprocessors = kernels_->device->facts().multiprocessors;
    const int64_t wanted = blocks < multiprocessors ? divide_up(2 * multiprocessors, blocks) : 1;
    if (is_cut_by_cluster(tile, wanted, longest)) return;
    const int64_t pieces = std::max<int64_t>(divide_up(longest, int64_t{tile.keys}), 1);
    const int64_t splits = std::min({pieces, wanted, int64_t{most_parts}});
    size_.blocks_y = p_.splits = narrow(splits);
    if (splits > 1)
      counters_ = upload(*kernels_->device, std::vector<std::byte>(static_cast<size_t>(blocks) * sizeof(uint32_t)),
                         "a layer's counters");
  }

  // Into a power of two of parts. Very long sequences are worth more of them than a cluster has.
  bool is_cut_by_cluster(const PagedTileSize& tile, int64_t wanted, int64_t longest) {
    constexpr int64_t least_keys = 32, most_keys = 4096;  // of a part
    const int64_t most = std::min({int64_t{kernels_->cluster}, wanted, longest / least_keys});
    if (most < 2 || (wanted > most && longest > most_keys * most)) return false;
    const int64_t most_shared = kernels_->device->facts().shared_bytes_per_block;
    for (auto parts = static_cast<int>(std::bit_floor(static_cast<uint64_t>(most))); parts > 1; parts /= 2) {
      size_.shared_bytes = tile.shared_bytes + tile.cluster_bytes(static_cast<int>(value_size_), parts);
      size_.blocks_y = size_.cluster_y = static_cast<unsigned>(parts);
      // A part of a device may have no room for as many blocks beside each other.
      if (size_.shared_bytes > most_shared || function_->clusters_at_once(size_) == 0) continue;
      p_.splits = static_cast<uint32_t>(parts);
      p_.is_cluster = 1;
      return true;
    }
    size_.shared_bytes = tile.shared_bytes;
    size_.blocks_y = size_.cluster_y = 1;
    return false;
  }

  std::shared_ptr<const PagedAttentionKernels> kernels_;
  const Function* function_ = nullptr;
  PagedParameters p_;
  LaunchSize size_;
  DeviceBuffer counters_;
  int64_t value_size_ = 0;
  bool has_operand_[4] = {};  // the sink, the scales and the relative bias
  uint32_t can_be_aligned_ = 0;
};

// Whether a layer computes a value from the model's inputs, and does not only give them another shape: then a kernel,
// or a copy, that waits for whoever wrote these comes before all that read the value.
bool follows_a_kernel(const Graph& graph, ValueId id) {
  std::vector<bool> is_computed(graph.values.size());  // of inputs, by layers
  const auto depends = [&](ValueId input) {
    return input != no_value && (is_computed[static_cast<size_t>(input)] ||
                                 std::find(graph.inputs.begin(), graph.inputs.end(), input) != graph.inputs.end());
  };
  for (const Node& node : graph.nodes) {
    const bool is_view = node.op.as<ops::Reshape>() != nullptr;
    if (is_view ? !is_computed[static_cast<size_t>(node.inputs[0])]
                : !std::any_of(node.inputs.begin(), node.inputs.end(), depends))
      continue;
    for (const ValueId output : node.outputs) is_computed[static_cast<size_t>(output)] = true;
  }
  return is_computed[static_cast<size_t>(id)];
}

// The form that runs on the device; nullopt for what no kernel takes.
std::optional<PagedForm> form_of(const RegionView& region, const DeviceFacts& device) {
  using Op = ops::PagedAttention;
  const auto* op = region.node.op.as<Op>();
  if (!op) return std::nullopt;
  const auto type = [&](size_t i) -> const TensorType& { return region.graph.type(region.node.inputs[i]); };
  const auto is_of_8_bits = [](DType t) { return t == DType::i8 || t == DType::f8e4m3; };
  const auto size = type(Op::in_keys).shape[3].as_constant(), value_size = type(Op::in_values).shape[3].as_constant();
  if (!size || !value_size || *size < 1 || *value_size < 1 || std::max(*size, *value_size) > most_head_size)
    return std::nullopt;
  const auto has = [&](size_t i) { return i < region.node.inputs.size() && region.node.inputs[i] != no_value; };
  PagedForm form{.query = type(Op::in_query).dtype,
                 .keys = type(Op::in_keys).dtype,
                 .values = type(Op::in_values).dtype,
                 .key_scales = has(Op::in_key_scales),
                 .value_scales = has(Op::in_value_scales),
                 .head_size = static_cast<int>(*size),
                 .value_size = static_cast<int>(*value_size),
                 .biased = has(Op::in_relative_bias)};
  if (!is_computed_float(form.query)) return std::nullopt;
  for (const DType t : {form.keys, form.values})
    if (!is_computed_float(t) && !is_of_8_bits(t)) return std::nullopt;
  for (size_t i = Op::in_sink; i <= Op::in_relative_bias; ++i)
    if (has(i) && type(i).dtype != DType::f32) return std::nullopt;
  form.capped = op->softcap > 0;
  const auto is_model_input = [&](size_t i) {
    const auto& inputs = region.graph.inputs;
    return std::find(inputs.begin(), inputs.end(), region.node.inputs[i]) != inputs.end();
  };
  form.tables_are_early = follows_a_kernel(region.graph, region.node.inputs[Op::in_query]) &&
                          is_model_input(Op::in_starts) && is_model_input(Op::in_past) && is_model_input(Op::in_table);
  const auto fits = [&] {
    return narrow_paged_tiles(form).front().shared_bytes <= device.shared_bytes_per_block;
  };
  const auto becomes_query = [&](DType t, bool has_scales) {
    return is_of_8_bits(t) || (t == form.query && !has_scales);
  };
  form.matrix_instructions = becomes_query(form.keys, form.key_scales) &&
                             becomes_query(form.values, form.value_scales) &&
                             (form.query == DType::f16 || (form.query == DType::bf16 && device.features.bf16_products));
  if (form.matrix_instructions && fits()) return form;
  form.matrix_instructions = false;
  return fits() ? std::optional(form) : std::nullopt;
}

// By the tiles that a step of one token a sequence has at the optimum, and the longest sequence.
std::vector<TacticOffer> offer_paged_attention(const RegionView& region, const Workshop& workshop) {
  using Op = ops::PagedAttention;
  const DeviceFacts& device = workshop.device()->facts();
  const auto form = form_of(region, device);
  if (!form) return {};
  const auto type = [&](size_t i) -> const TensorType& { return region.graph.type(region.node.inputs[i]); };
  // Profiles rarely say how wide tables are.
  constexpr double usual_length = 1024;
  const double length = std::max(usual_length, size_at_optimum(region, type(Op::in_table).shape[1]) *
                                                   size_at_optimum(region, type(Op::in_keys).shape[1]));
  const double flops = 4 * elements_at_optimum(region, region.node.inputs[Op::in_query]) * length;
  const double least = seconds_per_launch + flops / (form->matrix_instructions ? 1e14 : 1e13);
  const double tiles = std::max(1.0, size_at_optimum(region, type(Op::in_table).shape[0]) *
                                         size_at_optimum(region, type(Op::in_keys).shape[2]));
  std::vector<PagedChoice> choices;
  for (const PagedTileSize& tile : narrow_paged_tiles(*form)) {
    if (tile.shared_bytes > device.shared_bytes_per_block) continue;
    for (const int cluster : {most_portable_cluster, most_cluster, 4, 0}) {
      if (cluster > 0 && !device.features.clusters) continue;
      // Waits for memory (not fitted): each piece of a part but those that are asked for at first, and merging.
      constexpr double seconds_a_wait = 0.7e-6;
      const double most = cluster > 0 ? cluster : std::min(double{most_parts}, std::ceil(length / tile.keys));
      const double parts = std::floor(std::clamp(2 * device.multiprocessors / tiles, 1.0, most));
      const double pieces = std::ceil(length / parts / tile.keys);
      const double merging = parts <= 1 ? 0 : cluster > 0 ? 1 : 4;
      choices.push_back({tile, cluster, least + seconds_a_wait * (std::max(pieces - 2, 0.0) / 2 + merging)});
    }
  }
  std::stable_sort(choices.begin(), choices.end(),
                   [](const PagedChoice& a, const PagedChoice& b) { return a.seconds < b.seconds; });
  std::vector<TacticOffer> offers;
  for (const PagedChoice& choice : choices)
    offers.push_back({.parameters = choice.parameters(), .seconds = choice.seconds});
  return offers;
}

std::shared_ptr<const Kernel> compile_paged_attention(const RegionView& region, const TacticParameters& parameters,
                                                      const Workshop& workshop, PackedConstants&) {
  const auto form = form_of(region, workshop.device()->facts());
  PagedChoice choice;
  choice.cluster = static_cast<int>(parameters["cluster"]);
  for (const PagedTileSize& tile : narrow_paged_tiles(*form))
    if (tile.warps_k == parameters["warps"] && tile.keys == parameters["keys"]) choice.tile = tile;
  return device_kernel([op = *region.node.op.as<ops::PagedAttention>(),
                        kernels = std::make_shared<const PagedAttentionKernels>(*form, choice, layer_name(region),
                                                                                workshop)](const KernelShapes& shapes) {
    return std::make_unique<PagedAttentionLaunch>(op, kernels, shapes);
  });
}

}  // namespace

const CudaTactic paged_store_tactic{"cuda_paged_store", estimate_paged_store, compile_paged_store};
const CudaTactic paged_quantize_tactic{"cuda_paged_quantize", estimate_paged_quantize, compile_paged_quantize};
const CudaTactic paged_attention_tactic{"cuda_paged_attention", offer_paged_attention, compile_paged_attention};

}  // namespace camshaft::cuda
