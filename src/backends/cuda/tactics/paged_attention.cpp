// Attention over caches in blocks on a GPU, alone or with the update of its caches before it. Grids follow from sizes:
// how long sequences are is read by the kernels.
#include <fmt/format.h>

#include <algorithm>
#include <array>
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
#include "compile/chain.h"
#include "compile/layer_name.h"
#include "compile/optimum.h"
#include "compile/plan/paged_check.h"
#include "ir/ops/move.h"
#include "ir/ops/paged.h"
#include "ir/ops/paged_update.h"
#include "ir/region.h"

namespace camshaft::cuda {

namespace {

using Attention = ops::PagedAttention;
using Update = ops::PagedUpdate;

constexpr size_t most_inputs = Attention::in_relative_bias + 1;

/// A layer: attention, or a chain of an update of the caches and the attention that reads what it gives.
struct PagedLayer {
  Attention op;
  std::optional<Update> update;
  PagedForm form;
  /// The layer's inputs that are those of the attention; -1: omitted. Behind an update, the query and the caches are
  /// those of the update, whose shapes they have.
  std::vector<int32_t> inputs;
  std::vector<int32_t> update_inputs;
  int32_t result = 0, keys = -1, values = -1;  ///< the layer's outputs
  bool caches_are_inputs = false;              ///< of the model, which no kernel before this one writes
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

// The operands of a layer by its operators; nullopt for what is none. The form is left open.
std::optional<PagedLayer> operands_of(const RegionView& region, const Graph& parts) {
  PagedLayer layer;
  if (const auto* op = region.node.op.as<Attention>()) {
    layer.op = *op;
    for (size_t i = 0; i < region.node.inputs.size(); ++i)
      layer.inputs.push_back(region.node.inputs[i] == no_value ? -1 : static_cast<int32_t>(i));
    return layer;
  }
  if (!is_chain(region.node) || parts.nodes.size() != 2) return std::nullopt;
  const Node &update = parts.nodes[0], &attention = parts.nodes[1];
  if (!update.op.as<Update>() || !attention.op.as<Attention>()) return std::nullopt;
  layer.update = *update.op.as<Update>();
  layer.op = *attention.op.as<Attention>();
  const auto index = [&](ValueId id) { return id == no_value ? -1 : input_index(parts, id); };
  for (const ValueId id : update.inputs) layer.update_inputs.push_back(index(id));
  for (const ValueId id : attention.inputs) layer.inputs.push_back(index(id));
  for (const auto& [i, given, of] : {std::tuple(Attention::in_query, Update::out_query, Update::in_query),
                                     std::tuple(Attention::in_keys, Update::out_keys, Update::in_keys),
                                     std::tuple(Attention::in_values, Update::out_values, Update::in_values)}) {
    if (attention.inputs[i] != update.outputs[given]) return std::nullopt;
    layer.inputs[i] = layer.update_inputs[of];
  }
  const auto output = [&](ValueId id) {
    const auto found = std::find(parts.outputs.begin(), parts.outputs.end(), id);
    return found == parts.outputs.end() ? -1 : static_cast<int32_t>(found - parts.outputs.begin());
  };
  layer.result = output(attention.outputs[0]);
  layer.keys = output(update.outputs[Update::out_keys]);
  layer.values = output(update.outputs[Update::out_values]);
  if (parts.outputs.size() != 3 || layer.result < 0 || layer.keys < 0 || layer.values < 0) return std::nullopt;
  return layer;
}

// A layer that runs on the device; nullopt for what no kernel takes.
std::optional<PagedLayer> view_paged_layer(const RegionView& region, const DeviceFacts& device) {
  const Graph parts = is_chain(region.node) ? open_chain(region) : Graph();
  auto layer = operands_of(region, parts);
  if (!layer) return std::nullopt;
  const auto has = [&](size_t i) { return i < layer->inputs.size() && layer->inputs[i] >= 0; };
  const auto id_of = [&](int32_t input) { return region.node.inputs[static_cast<size_t>(input)]; };
  const auto type = [&](size_t i) -> const TensorType& { return region.graph.type(id_of(layer->inputs[i])); };
  const auto is_of_8_bits = [](DType t) { return t == DType::i8 || t == DType::f8e4m3; };
  const auto size = type(Attention::in_keys).shape[3].as_constant(),
             value_size = type(Attention::in_values).shape[3].as_constant();
  if (!size || !value_size || *size < 1 || *value_size < 1 || std::max(*size, *value_size) > most_head_size)
    return std::nullopt;
  PagedForm form{.query = type(Attention::in_query).dtype,
                 .keys = type(Attention::in_keys).dtype,
                 .values = type(Attention::in_values).dtype,
                 .key_scales = has(Attention::in_key_scales),
                 .value_scales = has(Attention::in_value_scales),
                 .head_size = static_cast<int>(*size),
                 .value_size = static_cast<int>(*value_size),
                 .biased = has(Attention::in_relative_bias)};
  if (!is_computed_float(form.query)) return std::nullopt;
  for (const DType t : {form.keys, form.values})
    if (!is_computed_float(t) && !is_of_8_bits(t)) return std::nullopt;
  for (size_t i = Attention::in_sink; i <= Attention::in_relative_bias; ++i)
    if (has(i) && type(i).dtype != DType::f32) return std::nullopt;
  form.capped = layer->op.softcap > 0;
  const auto is_model_input = [&](size_t i) {
    const auto& inputs = region.graph.inputs;
    return std::find(inputs.begin(), inputs.end(), id_of(layer->inputs[i])) != inputs.end();
  };
  form.tables_are_early = follows_a_kernel(region.graph, id_of(layer->inputs[Attention::in_query])) &&
                          is_model_input(Attention::in_starts) && is_model_input(Attention::in_past) &&
                          is_model_input(Attention::in_table);
  const auto becomes_query = [&](DType t, bool has_scales) {
    return is_of_8_bits(t) || (t == form.query && !has_scales);
  };
  form.matrix_instructions = becomes_query(form.keys, form.key_scales) &&
                             becomes_query(form.values, form.value_scales) &&
                             (form.query == DType::f16 || (form.query == DType::bf16 && device.features.bf16_products));
  if (layer->update) {
    // Tensor cores take the step's own rows as the cache would have them.
    const DType angles = region.graph.type(id_of(layer->update_inputs[Update::in_cosine])).dtype;
    if (!form.matrix_instructions || form.keys != form.query || form.values != form.query ||
        !is_computed_float(angles) || region.graph.type(id_of(layer->update_inputs[Update::in_sine])).dtype != angles)
      return std::nullopt;
    for (const size_t i : {Update::in_key, Update::in_value})
      if (region.graph.type(id_of(layer->update_inputs[i])).dtype != form.query) return std::nullopt;
    form.update = {angles, layer->update->interleaved, static_cast<int>(layer->update->rotated)};
    layer->caches_are_inputs =
        form.tables_are_early && is_model_input(Attention::in_keys) && is_model_input(Attention::in_values);
  }
  const auto fits = [&] { return narrow_paged_tiles(form).front().shared_bytes <= device.shared_bytes_per_block; };
  if (!fits() && form.matrix_instructions && !layer->update) form.matrix_instructions = false;
  if (!fits()) return std::nullopt;
  layer->form = form;
  return layer;
}

/// How few rows of a sequence are attended to, as in decoding.
struct PagedChoice {
  PagedTileSize tile;
  int cluster = 0;  ///< a tile's keys are shared out among so many blocks of a cluster at most; 0: parts meet in memory
  double seconds = 0;

  TacticParameters parameters() const { return {{"cluster", cluster}, {"warps", tile.warps_k}, {"keys", tile.keys}}; }
};

constexpr int most_portable_cluster = 8, most_cluster = 16;

class PagedKernel final : public Kernel {
 public:
  /// Kernels of one text, and the tile that they take.
  struct Compiled {
    PagedTileSize tile;
    Function function;
  };

  PagedKernel(const RegionView& region, PagedLayer layer, const PagedChoice& choice, const Workshop& workshop,
              PackedConstants& constants)
      : device(workshop.device()), layer(std::move(layer)), cluster(choice.cluster), name(layer_name(region)) {
    const PagedForm& form = this->layer.form;
    const auto most_shared = static_cast<unsigned>(device->facts().shared_bytes_per_block);
    const auto compile = [&](const PagedTileSize& tile, bool is_step) {
      const std::string text = is_step ? paged_step_text(form, tile) : paged_attention_text(form, tile);
      return Compiled{tile, workshop.module("paged_attention", text)
                                .function("paged_attention", most_shared, cluster > most_portable_cluster)};
    };
    narrow = compile(choice.tile, false);
    if (form.matrix_instructions) {
      const PagedTileSize tile = wide_paged_tile(form);
      if (tile.shared_bytes <= most_shared) wide = compile(tile, false);
    }
    if (!this->layer.update) return;
    PagedTileSize tile = choice.tile;
    tile.shared_bytes += tile.step_bytes(form);
    if (tile.shared_bytes <= most_shared) step = compile(tile, true);
    const Graph parts = open_chain(region);
    update =
        paged_update_tactic.compile({parts, parts.nodes[0], region.symbols, region.threads}, {}, workshop, constants);
    copies = std::make_shared<const CopyKernels>(workshop);
  }

  Place place() const override { return Place::device; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override;
  bool can_run_in_place(size_t i, size_t o) const override {
    const auto is = [&](size_t of, int32_t output) {
      return static_cast<int32_t>(i) == layer.update_inputs[of] && static_cast<int32_t>(o) == output;
    };
    return layer.update && (is(Update::in_keys, layer.keys) || is(Update::in_values, layer.values));
  }
  bool reads_slices(size_t i) const override {
    const auto is = [&](size_t of) { return static_cast<int32_t>(i) == layer.update_inputs[of]; };
    return layer.update && (is(Update::in_query) || is(Update::in_key) || is(Update::in_value));
  }

  std::shared_ptr<const Device> device;  // outlives the functions
  PagedLayer layer;
  int cluster;
  std::string name;
  Compiled narrow;
  std::optional<Compiled> wide, step;
  std::shared_ptr<const Kernel> update;  // of many tokens
  std::shared_ptr<const CopyKernels> copies;
};

// Operands of an operator of the layer.
template <class T>
std::vector<T> chosen(const std::vector<int32_t>& inputs, std::span<const T> all) {
  std::vector<T> made(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i] >= 0) made[i] = all[static_cast<size_t>(inputs[i])];
  return made;
}

class PagedLaunch final : public Launch {
 public:
  PagedLaunch(const PagedKernel& kernel, const KernelShapes& all) : kernel_(kernel) {
    const PagedLayer& layer = kernel.layer;
    KernelShapes shapes;
    shapes.inputs = chosen<OperandShape>(layer.inputs, all.inputs);
    const Dims &query = shapes.inputs[Attention::in_query].dims, &keys = shapes.inputs[Attention::in_keys].dims;
    const Dims &values = shapes.inputs[Attention::in_values].dims, &table = shapes.inputs[Attention::in_table].dims;
    check_paged_attention(layer.op, shapes);
    for (size_t i = Attention::in_sink; i < most_inputs; ++i) has_operand_[i] = has_scales(shapes, i);
    for (size_t i = 0; i < Attention::in_sink; ++i) has_operand_[i] = true;
    p_.tokens = narrow(query[0], "the tokens of paged_attention");
    p_.sequences = narrow(table[0], "the sequences of paged_attention");
    p_.width = narrow(table[1], "the width of a block table");
    p_.heads = narrow(layer.op.heads, "the heads of paged_attention");
    p_.key_heads = narrow(keys[2], "the heads of paged_attention");
    p_.group = Divisor(narrow(layer.op.heads / keys[2]));
    p_.block_size = Divisor(narrow(std::max<int64_t>(keys[1], 1), "the size of a block"));
    p_.blocks = keys[1] > 0 ? keys[0] : 0;
    narrow(table[1] * keys[1], "the length of a sequence");
    narrow(keys[0] * keys[1] * keys[2], "the rows of a cache");
    p_.window = static_cast<uint32_t>(std::min<int64_t>(layer.op.window, most_elements - 1));
    p_.causal = layer.op.causal ? 1 : 0;
    const double softcap = layer.op.softcap;
    p_.scale = static_cast<float>(softcap > 0 ? layer.op.scale / softcap : layer.op.scale);
    p_.softcap = static_cast<float>(softcap);
    p_.bias_scale = static_cast<float>(softcap > 0 ? 1 / softcap : 1);
    if (has_operand_[Attention::in_relative_bias])
      p_.reach =
          static_cast<int32_t>(narrow(shapes.inputs[Attention::in_relative_bias].dims[1], "a relative bias") / 2);
    value_size_ = values[3];
    query_bytes_ = byte_size(shapes.inputs[Attention::in_query].dtype, element_count(query));
    can_be_aligned_ = (keys[3] % 8 == 0 ? 3U : 0U) | (values[3] % 8 == 0 ? 4U : 0U);
    const int64_t rows = query[0] * p_.group.value;
    const bool is_wide = kernel.wide && table[0] > 0 && rows / table[0] > 2 * kernel.narrow.tile.rows;
    if (layer.update) prepare_update(all, is_wide);
    cut(is_wide ? *kernel.wide : is_step_ ? *kernel.step : kernel.narrow, rows, table[0], keys[2], table[1] * keys[1]);
    constexpr size_t most_arguments = 20;
    arguments_.reserve(most_arguments);
  }

  size_t workspace_bytes() const override { return turned_bytes() + partial_bytes(); }

  void run(const LaunchArguments& all) override {
    const PagedLayer& layer = kernel_.layer;
    const std::vector<int32_t>& of = layer.inputs;
    for (size_t i = 0; i < of.size(); ++i)
      inputs_[i] = has_operand_[i] ? all.inputs[static_cast<size_t>(of[i])] : nullptr;
    result_ = all.outputs[static_cast<size_t>(layer.result)];
    if (layer.update && is_step_)
      store(all);
    else if (layer.update)
      run_update(all);
    if (p_.tokens == 0) return;
    p_.aligned = is_aligned(result_, 16) ? 8U : 0U;
    for (const size_t i : {size_t{0}, size_t{1}, size_t{2}})
      if (is_aligned(inputs_[i], 16)) p_.aligned |= can_be_aligned_ & (1U << i);
    partial_ = all.workspace + turned_bytes();
    counters_at_ = counters_.data();
    Queue& queue = *static_cast<Queue*>(all.queue);
    Complaint complaint = queue.complaints().of(kernel_.name);
    std::vector<void*>& arguments = arguments_;  // keeps its memory from run to run
    arguments.assign({&p_});
    if (is_step_) arguments.push_back(&step_);
    for (const std::byte*& input : inputs_) arguments.push_back(&input);
    arguments.insert(arguments.end(), {&result_, &partial_, &counters_at_, &complaint});
    function_->launch(queue.stream(), size_, arguments);
  }

 private:
  void prepare_update(const KernelShapes& all, bool is_wide) {
    const PagedLayer& layer = kernel_.layer;
    KernelShapes shapes;
    shapes.inputs = chosen<OperandShape>(layer.update_inputs, all.inputs);
    const auto of = [&](size_t i) -> const OperandShape& { return shapes.inputs[i]; };
    const Dims& keys = of(Update::in_keys).dims;
    check_paged_update(*layer.update, shapes);
    const int64_t places = keys[0] * keys[1];
    is_step_ = kernel_.step && !is_wide && p_.tokens <= most_step_tokens;
    if (!is_step_) {
      shapes.outputs = {
          {of(Update::in_query).dtype, of(Update::in_query).dims}, of(Update::in_keys), of(Update::in_values)};
      update_ = kernel_.update->prepare(shapes);
      return;
    }
    step_.places = places;
    step_.wide = of(Update::in_slots).dtype == DType::i64 ? 1 : 0;
    step_.query_pitch = of(Update::in_query).pitch();
    step_.key_pitch = of(Update::in_key).pitch();
    step_.value_pitch = of(Update::in_value).pitch();
    for (const size_t i : {Update::in_keys, Update::in_values})
      copies_.emplace_back(kernel_.copies, width_of(of(i)), StridedMove{{element_count(of(i).dims)}, {1}, {1}, 0});
  }

  // The caches that the step updates, and where it finds what it brings.
  void store(const LaunchArguments& all) {
    const PagedLayer& layer = kernel_.layer;
    const auto input = [&](size_t i) { return all.inputs[static_cast<size_t>(layer.update_inputs[i])]; };
    std::byte *keys = all.outputs[static_cast<size_t>(layer.keys)],
              *values = all.outputs[static_cast<size_t>(layer.values)];
    const bool are_in_place = input(Update::in_keys) == keys && input(Update::in_values) == values;
    if (input(Update::in_keys) != keys) copies_[0].run(stream_of(all), input(Update::in_keys), keys);
    if (input(Update::in_values) != values) copies_[1].run(stream_of(all), input(Update::in_values), values);
    step_.caches_are_early = layer.caches_are_inputs && are_in_place ? 1 : 0;
    step_.query = input(Update::in_query);
    step_.key = input(Update::in_key);
    step_.value = input(Update::in_value);
    step_.cosines = input(Update::in_cosine);
    step_.sines = input(Update::in_sine);
    step_.slots = input(Update::in_slots);
    step_.keys = keys;
    step_.values = values;
    inputs_[Attention::in_keys] = keys;
    inputs_[Attention::in_values] = values;
  }

  // The update of many tokens is a kernel of its own.
  void run_update(const LaunchArguments& all) {
    const PagedLayer& layer = kernel_.layer;
    std::array<const std::byte*, Update::input_count> inputs = {};
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i] = all.inputs[static_cast<size_t>(layer.update_inputs[i])];
    const std::array<std::byte*, Update::output_count> outputs = {
        all.workspace, all.outputs[static_cast<size_t>(layer.keys)], all.outputs[static_cast<size_t>(layer.values)]};
    update_->run({inputs, outputs, nullptr, all.pool, all.cancellation, all.queue});
    inputs_[Attention::in_query] = outputs[Update::out_query];
    inputs_[Attention::in_keys] = outputs[Update::out_keys];
    inputs_[Attention::in_values] = outputs[Update::out_values];
  }

  size_t turned_bytes() const { return update_ ? round_up(query_bytes_, size_t{256}) : 0; }
  size_t partial_bytes() const {
    if (p_.splits == 1 || p_.is_cluster != 0) return 0;
    return size_t{p_.tokens} * p_.heads * p_.splits * static_cast<size_t>(value_size_ + 2) * sizeof(float);
  }

  // Tiles of many rows read keys less often; those of few waste less on short sequences. Where there are too few of
  // these for the machine, each one's keys are split: as often as the longest sequence that the table has room for is
  // worth it.
  void cut(const PagedKernel::Compiled& kernel, int64_t rows, int64_t sequences, int64_t key_heads, int64_t longest) {
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
    const int64_t multiprocessors = kernel_.device->facts().multiprocessors;
    const int64_t wanted = blocks < multiprocessors ? divide_up(2 * multiprocessors, blocks) : 1;
    if (is_cut_by_cluster(tile, wanted, longest)) return;
    const int64_t pieces = std::max<int64_t>(divide_up(longest, int64_t{tile.keys}), 1);
    const int64_t splits = std::min({pieces, wanted, int64_t{most_parts}});
    size_.blocks_y = p_.splits = narrow(splits);
    if (splits > 1)
      counters_ = upload(*kernel_.device, std::vector<std::byte>(static_cast<size_t>(blocks) * sizeof(uint32_t)),
                         "a layer's counters");
  }

  // Into a power of two of parts. Very long sequences are worth more of them than a cluster has.
  bool is_cut_by_cluster(const PagedTileSize& tile, int64_t wanted, int64_t longest) {
    constexpr int64_t least_keys = 32, most_keys = 4096;  // of a part
    const int64_t most = std::min({int64_t{kernel_.cluster}, wanted, longest / least_keys});
    if (most < 2 || (wanted > most && longest > most_keys * most)) return false;
    const int64_t most_shared = kernel_.device->facts().shared_bytes_per_block;
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

  const PagedKernel& kernel_;
  const Function* function_ = nullptr;
  PagedParameters p_;
  LaunchSize size_;
  DeviceBuffer counters_;
  int64_t value_size_ = 0;
  size_t query_bytes_ = 0;
  bool has_operand_[most_inputs] = {};
  uint32_t can_be_aligned_ = 0;
  // Of an update before it:
  bool is_step_ = false;  // in one kernel
  PagedStepParameters step_;
  std::vector<StridedCopy> copies_;
  std::unique_ptr<Launch> update_;
  // Of a run:
  const std::byte* inputs_[most_inputs] = {};
  std::byte *result_ = nullptr, *partial_ = nullptr, *counters_at_ = nullptr;
  std::vector<void*> arguments_;
};

std::unique_ptr<Launch> PagedKernel::prepare(const KernelShapes& shapes) const {
  return std::make_unique<PagedLaunch>(*this, shapes);
}

// By the tiles that a step of one token a sequence has at the optimum, and the longest sequence.
std::vector<TacticOffer> offer_paged_attention(const RegionView& region, const Workshop& workshop) {
  const DeviceFacts& device = workshop.device()->facts();
  const auto layer = view_paged_layer(region, device);
  if (!layer) return {};
  const PagedForm& form = layer->form;
  const auto id_of = [&](size_t i) { return region.node.inputs[static_cast<size_t>(layer->inputs[i])]; };
  const auto size = [&](size_t i, size_t axis) { return size_at_optimum(region, region.graph.shape(id_of(i))[axis]); };
  // Profiles rarely say how wide tables are.
  constexpr double usual_length = 1024;
  const double length = std::max(usual_length, size(Attention::in_table, 1) * size(Attention::in_keys, 1));
  const double flops = 4 * elements_at_optimum(region, id_of(Attention::in_query)) * length;
  const double least = seconds_per_launch + flops / (form.matrix_instructions ? 1e14 : 1e13);
  const double tiles = std::max(1.0, size(Attention::in_table, 0) * size(Attention::in_keys, 2));
  std::vector<PagedChoice> choices;
  for (const PagedTileSize& tile : narrow_paged_tiles(form)) {
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
                                                      const Workshop& workshop, PackedConstants& constants) {
  PagedLayer layer = *view_paged_layer(region, workshop.device()->facts());
  PagedChoice choice;
  choice.cluster = static_cast<int>(parameters["cluster"]);
  for (const PagedTileSize& tile : narrow_paged_tiles(layer.form))
    if (tile.warps_k == parameters["warps"] && tile.keys == parameters["keys"]) choice.tile = tile;
  return std::make_shared<const PagedKernel>(region, std::move(layer), choice, workshop, constants);
}

}  // namespace

const CudaTactic paged_attention_tactic{"cuda_paged_attention", offer_paged_attention, compile_paged_attention};

}  // namespace camshaft::cuda
