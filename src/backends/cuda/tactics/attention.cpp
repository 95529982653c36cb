// Attention on a GPU.
#include "ir/ops/attention.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "backends/cuda/codegen/attention_text.h"
#include "backends/cuda/codegen/scalar_text.h"
#include "backends/cuda/device/attention_parameters.h"
#include "backends/cuda/tactics/attention_kernel.h"
#include "backends/cuda/tactics/axes.h"
#include "backends/cuda/tactics/device_kernel.h"
#include "backends/cuda/tactics/narrow.h"
#include "base/divide_up.h"
#include "compile/optimum.h"
#include "compile/region/scalar_lowering.h"
#include "ir/ops/broadcast.h"
#include "ir/ops/region.h"
#include "ir/region.h"

namespace camshaft::cuda {

namespace {

constexpr size_t first_mask = 3;

// What a kernel of few masks takes is the beginning of what one of many does.
static_assert(offsetof(AttentionParameters<1>, mask) == offsetof(AttentionParameters<most_attention_masks>, mask));

// An attention, alone or as a region with what makes bytes of its result.
struct AttentionView {
  const ops::Attention* op = nullptr;
  std::vector<size_t> inputs;  // the region's, by the operator's: several of these may be one tensor
  std::optional<AttentionSteps> steps;
};

struct AttentionKernels {
  std::shared_ptr<const Device> device;  // outlives the functions
  std::vector<size_t> inputs;            // of the region, by the operator's
  struct Form {
    AttentionTile tile;
    Function function;
  };
  Form narrow;
  std::optional<Form> wide, brief;  // that the device has the shared memory for
  Function merge;
  size_t element_bytes = 4, result_bytes = 4, mask_bytes = 4;  // of the first mask
};

/// The sizes and strides of an attention's accesses, which bind_attention() has checked. Outer axes whose problems
/// share keys and values are seen as more queries where there are few: then keys are read once for all of them (the
/// heads of a group when one token is decoded).
class AccessReader {
 public:
  AccessReader(const ops::Attention& op, const SymbolBindings& symbols, int64_t few_queries)
      : symbols_(symbols), outer_(sizes(op.outer)), queries_(sizes(op.queries)), keys_(sizes(op.keys)) {
    moves_.resize(outer_.size());
    queries = element_count(queries_);
    outer = element_count(outer_);
    for (size_t d = outer_.size(); d-- > 0;) {
      const bool shares = op.key[1 + d].evaluate(symbols) == 0 && op.value[1 + d].evaluate(symbols) == 0;
      if (!shares || queries > few_queries / outer_[d] || moved() + queries_.size() + 1 > most_axes) continue;
      moves_[d] = true;
      queries *= outer_[d];
      outer /= outer_[d];
    }
  }

  int64_t outer = 1, queries = 1;  ///< elements of the axes together

  AttentionAccess by_queries(const Shape& access) const {
    AttentionAccess made = begin(access);
    made.rows = axes(access, true, 1 + outer_.size(), queries_);
    return made;
  }
  AttentionAccess by_keys(const Shape& access) const {
    AttentionAccess made = begin(access);
    made.rows = axes(access, false, 1 + outer_.size(), keys_);
    return made;
  }
  AttentionMask mask(const Shape& masks, size_t m, double masked) const {
    const size_t stride = 1 + outer_.size() + queries_.size() + keys_.size();
    const auto first = masks.begin() + static_cast<int64_t>(m * stride);
    const Shape access(first, first + static_cast<int64_t>(stride));
    const AttentionAccess shared = begin(access);
    AttentionMask made;
    made.offset = shared.offset;
    made.outer = shared.outer;
    made.queries = axes(access, true, 1 + outer_.size(), queries_);
    made.keys = axes(access, false, 1 + outer_.size() + queries_.size(), keys_);
    made.masked = static_cast<float>(masked);
    return made;
  }

 private:
  Dims sizes(const Shape& shape) const {
    Dims dims;
    for (const Dim& d : shape) dims.push_back(d.evaluate(symbols_));
    return dims;
  }
  size_t moved() const { return static_cast<size_t>(std::count(moves_.begin(), moves_.end(), true)); }
  // The outer axes that have moved, or that have not, and behind them `rows`, whose strides begin at `first`.
  Axes axes(const Shape& access, bool with_moved, size_t first, const Dims& rows) const {
    Dims sizes, strides;
    for (size_t d = 0; with_moved && d < outer_.size(); ++d) add_outer(access, d, true, sizes, strides);
    for (size_t d = 0; d < rows.size(); ++d) {
      sizes.push_back(rows[d]);
      strides.push_back(access[first + d].evaluate(symbols_));
    }
    return collapsed(sizes, strides);
  }
  void add_outer(const Shape& access, size_t d, bool moved, Dims& sizes, Dims& strides) const {
    if (moves_[d] != moved) return;
    sizes.push_back(outer_[d]);
    strides.push_back(access[1 + d].evaluate(symbols_));
  }
  static Axes collapsed(const Dims& sizes, const Dims& strides) {
    const ops::LoopNest nest = ops::collapse(sizes, {strides});
    return axes_of(nest.sizes, nest.strides[0]);
  }
  AttentionAccess begin(const Shape& access) const {
    AttentionAccess made;
    made.offset = access[0].evaluate(symbols_);
    made.column = access.back().evaluate(symbols_);
    Dims sizes, strides;
    for (size_t d = 0; d < outer_.size(); ++d) add_outer(access, d, false, sizes, strides);
    made.outer = collapsed(sizes, strides);
    return made;
  }

  const SymbolBindings& symbols_;
  Dims outer_, queries_, keys_;
  std::vector<bool> moves_;  // of outer axes: to the queries
};

class AttentionLaunch final : public Launch {
 public:
  AttentionLaunch(const ops::Attention& op, const AttentionKernels& kernels, const KernelShapes& shapes)
      : kernels_(kernels) {
    std::vector<Dims> inputs;
    for (const size_t i : kernels.inputs) inputs.push_back(shapes.inputs[i].dims);
    const ops::BoundAttention bound =
        ops::bind_attention(op, inputs, shapes.outputs[0].dims, *shapes.symbols);  // checks every access
    value_size_ = op.value_size;
    masks_ = op.masked.size();
    if (bound.outer == 0 || bound.queries == 0) return;
    constexpr int64_t most = int64_t{1} << 31;
    if (bound.keys >= most || bound.queries >= most / bound.outer)
      throw Error(ErrorCode::unsupported, "an attention of 2^31 queries or keys, or more");
    const AccessReader reader(op, *shapes.symbols, kernels.narrow.tile.queries);
    shape_.queries = narrow(reader.queries);
    shape_.keys = narrow(bound.keys);
    shape_.rows = narrow(bound.outer * bound.queries);
    shape_.zero_undefined = op.zero_undefined ? 1 : 0;
    shape_.scale = static_cast<float>(op.softcap > 0 ? op.scale / op.softcap : op.scale);
    shape_.softcap = static_cast<float>(op.softcap);
    shape_.query = reader.by_queries(op.query);
    shape_.result = reader.by_queries(op.result);
    if (bound.keys > 0) {
      shape_.key = reader.by_keys(op.key);
      shape_.value = reader.by_keys(op.value);
      for (size_t m = 0; m < masks_; ++m) shape_.mask[m] = reader.mask(op.masks, m, op.masked[m]);
    }
    const auto elements = static_cast<int64_t>(16 / kernels.element_bytes);
    const AttentionAccess* accesses[] = {&shape_.query, &shape_.key, &shape_.value, &shape_.result};
    for (size_t i = 0; i < 4; ++i)
      if (can_be_aligned(*accesses[i], i < 2 ? op.size : op.value_size, i < 3 ? elements : elements_written))
        can_be_aligned_ |= 1U << i;
    if (masks_ == 1 && bound.keys > 0 && has_pairs(shape_.mask[0], bound.keys)) can_be_aligned_ |= 16U;
    shape_.aligned =
        std::all_of(shape_.mask, shape_.mask + masks_, [](const auto& m) { return m.keys.rank <= 1; }) ? 32U : 0;
    cut(reader.outer, reader.queries, bound.keys);
  }

  size_t workspace_bytes() const override {
    return size_.blocks_y > 1 ? size_t{shape_.rows} * size_.blocks_y * static_cast<size_t>(value_size_ + 2) * 4 : 0;
  }

  void run(const LaunchArguments& arguments) override {
    if (shape_.rows == 0) return;
    std::vector<const std::byte*>& inputs = pointers_;
    inputs.clear();
    for (const size_t i : kernels_.inputs) inputs.push_back(arguments.inputs[i]);
    shape_.aligned &= 32U;
    for (size_t i = 0; i < 3; ++i)
      if (is_aligned(inputs[i], 16)) shape_.aligned |= can_be_aligned_ & (1U << i);
    auto* result = arguments.outputs[0];
    if (is_aligned(result, elements_written * kernels_.result_bytes)) shape_.aligned |= can_be_aligned_ & 8U;
    if (masks_ == 1 && is_aligned(inputs[first_mask], 2 * kernels_.mask_bytes)) shape_.aligned |= can_be_aligned_ & 16U;
    std::byte* partial = arguments.workspace;
    std::vector<void*>& parameters = parameters_;
    parameters = {&shape_, &inputs[0], &inputs[1], &inputs[2], &result, &partial};
    for (size_t m = 0; m < masks_; ++m) parameters.push_back(&inputs[first_mask + m]);
    const Stream& stream = stream_of(arguments);
    form_->function.launch(stream, size_, parameters);
    if (size_.blocks_y == 1) return;
    constexpr unsigned warps = attention_merge_threads / 32;
    void* merged[] = {&shape_, &size_.blocks_y, &partial, &result};
    kernels_.merge.launch(stream, {.blocks = (shape_.rows + warps - 1) / warps, .threads = attention_merge_threads},
                          merged);
  }

 private:
  static constexpr int64_t elements_written = 8;  // at once

  // By so many elements.
  static bool can_be_aligned(const AttentionAccess& access, int64_t columns, int64_t elements) {
    const auto fits = [&](const Axes& axes) {
      return std::all_of(axes.stride, axes.stride + axes.rank, [&](int64_t s) { return s % elements == 0; });
    };
    return columns % elements == 0 && access.column == 1 && access.offset % elements == 0 && fits(access.outer) &&
           fits(access.rows);
  }

  // Whether keys 2 n and 2 n + 1 have neighbouring elements, which begin at an even one.
  static bool has_pairs(const AttentionMask& mask, int64_t keys) {
    const auto is_even = [](const Axes& axes) {
      return std::all_of(axes.stride, axes.stride + axes.rank, [](int64_t s) { return s % 2 == 0; });
    };
    return keys % 2 == 0 && mask.keys.rank == 1 && mask.keys.stride[0] == 1 && mask.offset % 2 == 0 &&
           is_even(mask.outer) && is_even(mask.queries);
  }

  // Tiles of many queries read keys less often; those of few make more blocks. Where even these leave the machine idle,
  // the keys are split too.
  void cut(int64_t outer, int64_t queries, int64_t keys) {
    const int64_t multiprocessors = kernels_.device->facts().multiprocessors;
    const auto tiles_of = [&](const AttentionTile& tile) { return divide_up(queries, tile.queries); };
    const bool is_brief =
        kernels_.brief && keys <= most_brief_keys && (!kernels_.wide || keys > kernels_.wide->tile.keys);
    const std::optional<AttentionKernels::Form>& many = is_brief ? kernels_.brief : kernels_.wide;
    const bool is_wide =
        many && queries > kernels_.narrow.tile.queries && outer * tiles_of(many->tile) >= multiprocessors;
    form_ = is_wide ? &*many : &kernels_.narrow;
    const AttentionTile& tile = form_->tile;
    const int64_t blocks = outer * tiles_of(tile), key_tiles = divide_up(keys, tile.keys);
    constexpr int64_t worth_a_launch = 4;  // tiles that one block goes through
    int64_t per_split = std::max<int64_t>(key_tiles, 1);
    if (blocks < multiprocessors && key_tiles >= worth_a_launch)
      per_split = divide_up(key_tiles, std::min(key_tiles, divide_up(2 * multiprocessors, blocks)));
    if (blocks >= int64_t{1} << 31) throw Error(ErrorCode::unsupported, "an attention of 2^31 tiles, or more");
    shape_.tiles = Divisor(narrow(tiles_of(tile)));
    shape_.tiles_per_split = narrow(per_split);
    size_.blocks = narrow(blocks);
    size_.blocks_y = narrow(std::max<int64_t>(1, divide_up(key_tiles, per_split)));
    size_.threads = tile.threads;
    size_.shared_bytes = per_split > 1 ? tile.shared_bytes : tile.shared_bytes_of_one;
    pointers_.reserve(first_mask + masks_);
    parameters_.reserve(6 + masks_);
  }

  const AttentionKernels& kernels_;
  AttentionParameters<most_attention_masks> shape_;
  LaunchSize size_;
  int64_t value_size_ = 1;
  size_t masks_ = 0;
  uint32_t can_be_aligned_ = 0;
  const AttentionKernels::Form* form_ = nullptr;
  std::vector<const std::byte*> pointers_;
  std::vector<void*> parameters_;
};

std::optional<AttentionView> view_attention(const RegionView& region) {
  AttentionView view;
  if ((view.op = region.node.op.as<ops::Attention>()) != nullptr) {
    view.inputs.resize(region.node.inputs.size());
    std::iota(view.inputs.begin(), view.inputs.end(), size_t{0});
    return view;
  }
  const auto* kind = region.node.op.as<ops::Region>();
  if (!kind || kind->kind != ops::RegionKind::attention || region.node.bodies[0].nodes.empty()) return std::nullopt;
  const Graph& body = region.node.bodies[0];
  const Node& attention = body.nodes[0];
  view.op = attention.op.as<ops::Attention>();
  if (!view.op || body.outputs.size() != 1) return std::nullopt;
  for (const ValueId id : attention.inputs) {
    const int32_t input = input_index(body, id);
    if (input < 0) return std::nullopt;
    view.inputs.push_back(static_cast<size_t>(input));
  }
  const ValueId result = attention.outputs[0], steps = body.outputs[0];
  const auto lowered = lower_scalar_program(body, nodes_between(body, 1, body.nodes.size()), {&steps, 1});
  if (!lowered || lowered->loads != std::vector<ValueId>{result} || body.shape(steps) != body.shape(result) ||
      bit_width(body.type(steps).dtype) != 8)
    return std::nullopt;
  view.steps = AttentionSteps{body.type(steps).dtype, lowered->program};
  return view;
}

// The form that runs on the device; nullopt for what no kernel takes.
std::optional<AttentionForm> form_of(const RegionView& region, const AttentionView& view, const DeviceFacts& device) {
  const ops::Attention* op = view.op;
  if (op->masked.size() > most_attention_masks || op->size > most_head_size || op->value_size > most_head_size)
    return std::nullopt;
  for (const Shape* axes : {&op->outer, &op->queries, &op->keys})
    if (axes->size() > most_axes) return std::nullopt;
  const auto dtype_of = [&](size_t i) { return region.graph.type(region.node.inputs[view.inputs[i]]).dtype; };
  AttentionForm form{dtype_of(0), static_cast<int>(op->size), static_cast<int>(op->value_size)};
  if (form.dtype != DType::f32 && form.dtype != DType::f16 && form.dtype != DType::bf16) return std::nullopt;
  for (size_t i = first_mask; i < view.inputs.size(); ++i) form.masks.push_back(dtype_of(i));
  form.steps = view.steps;
  form.capped = op->softcap > 0;
  const auto fits = [&] { return attention_tiles(form).narrow.shared_bytes <= device.shared_bytes_per_block; };
  form.matrix_instructions = form.dtype == DType::f16 || (form.dtype == DType::bf16 && device.features.bf16_products);
  form.by_warpgroups = form.matrix_instructions && device.features.warpgroup_products &&
                       can_go_by_warpgroups(form.head_size, form.value_size);
  if (form.matrix_instructions && fits()) return form;
  form.by_warpgroups = false;
  form.matrix_instructions = false;
  return fits() ? std::optional(form) : std::nullopt;
}

std::optional<double> estimate_attention(const RegionView& region, const DeviceFacts& device) {
  const auto view = view_attention(region);
  const auto form = view ? form_of(region, *view, device) : std::nullopt;
  if (!form) return std::nullopt;
  const ops::Attention& op = *view->op;
  double scores = 1;
  for (const Shape* sizes : {&op.outer, &op.queries, &op.keys})
    for (const Dim& d : *sizes) scores *= size_at_optimum(region, d);
  // About half of what the instructions allow.
  const double per_second = form->matrix_instructions ? 3e14 : 2e13;
  // 16: the softmax, and as much for a cap. Each by itself: a file may name any sizes.
  const double exponentials = op.softcap > 0 ? 32 : 16;
  const double flops = 2 * scores * (static_cast<double>(op.size) + static_cast<double>(op.value_size) + exponentials);
  return seconds_per_launch + std::max(flops / per_second, bytes_at_optimum(region) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_form(const ops::Attention& op, const std::vector<size_t>& inputs,
                                           const AttentionForm& form, const Workshop& workshop) {
  const AttentionTiles tiles = attention_tiles(form);
  const Module module = workshop.module("attention", attention_text(form));
  AttentionKernels kernels;
  kernels.device = workshop.device();
  kernels.inputs = inputs;
  const auto form_of_tile = [&](const std::optional<AttentionTile>& tile) -> std::optional<AttentionKernels::Form> {
    if (!tile || tile->shared_bytes > workshop.device()->facts().shared_bytes_per_block) return std::nullopt;
    return AttentionKernels::Form{*tile, module.function(tile->kernel, tile->shared_bytes)};
  };
  kernels.narrow = {tiles.narrow, module.function(tiles.narrow.kernel, tiles.narrow.shared_bytes)};
  kernels.wide = form_of_tile(tiles.wide);
  kernels.brief = form_of_tile(tiles.brief);
  kernels.merge = module.function("merge");
  kernels.element_bytes = static_cast<size_t>(bit_width(form.dtype) / 8);
  kernels.result_bytes = form.steps ? 1 : kernels.element_bytes;
  if (!form.masks.empty()) kernels.mask_bytes = static_cast<size_t>(bit_width(form.masks[0]) / 8);
  return device_kernel(
      [op, kernels](const KernelShapes& shapes) { return std::make_unique<AttentionLaunch>(op, kernels, shapes); });
}

std::shared_ptr<const Kernel> compile_attention(const RegionView& region, const Workshop& workshop) {
  return attention_kernel(region, workshop)();
}

}  // namespace

std::function<std::shared_ptr<const Kernel>()> attention_kernel(const RegionView& region, const Workshop& workshop) {
  const auto view = view_attention(region);
  const auto form = view ? form_of(region, *view, workshop.device()->facts()) : std::nullopt;
  if (!form) return nullptr;
  return [op = *view->op, inputs = view->inputs, form = *form, &workshop] {
    return compile_form(op, inputs, form, workshop);
  };
}

const CudaTactic attention_tactic{"cuda_attention", estimate_attention, compile_attention};

}  // namespace camshaft::cuda
