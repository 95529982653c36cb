#include "backends/cpu/tactics/paged.h"

#include <algorithm>

#include "backends/cpu/kernels/attention/paged_attention.h"
#include "backends/cpu/kernels/move/paged_quantize.h"
#include "backends/cpu/kernels/move/paged_store.h"
#include "backends/cpu/tactics/simple_kernel.h"
#include "compile/plan/paged_check.h"
#include "ir/ops/paged.h"
#include "ir/ops/strides.h"

namespace camshaft::cpu {

namespace {

bool is_narrow_float(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

std::optional<double> estimate_paged_store(const RegionView& region) {
  if (!region.node.op.as<ops::PagedStore>()) return std::nullopt;
  const DType dtype = region.graph.type(region.node.inputs[0]).dtype;
  if (holds_objects(dtype) || bit_width(dtype) < 8) return std::nullopt;
  const double rows = elements_at_optimum(region, region.node.inputs[ops::PagedStore::in_rows]);
  return seconds_per_launch + 2 * rows * bit_width(dtype) / 8 * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_paged_store(const RegionView&, PackedConstants&) {
  return simple_kernel(
      [](const KernelShapes& shapes) {
        const Dims &cache = shapes.inputs[0].dims, &rows = shapes.inputs[1].dims;
        check_paged_store(shapes);
        PagedStore store;
        store.places = cache[0] * cache[1];
        store.count = rows[0];
        store.row_bytes = ops::product(cache, 2, cache.size()) * bit_width(shapes.inputs[0].dtype) / 8;
        return [store, type = shapes.inputs[2].dtype](const LaunchArguments& a) {
          store.run(a.pool, a.inputs[0], a.inputs[1], a.inputs[2], type, a.outputs[0]);
        };
      },
      true);
}

class PagedQuantizeKernel final : public Kernel {
 public:
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    using Op = ops::PagedQuantize;
    check_paged_quantize(shapes);
    const Dims& cache = shapes.inputs[Op::in_cache].dims;
    PagedQuantize store;
    store.places = cache[0] * cache[1];
    store.count = shapes.inputs[Op::in_rows].dims[0];
    store.heads = cache[2];
    store.size = cache[3];
    store.row_type = shapes.inputs[Op::in_rows].dtype;
    store.cache_type = shapes.inputs[Op::in_cache].dtype;
    const auto run = [store, type = shapes.inputs[Op::in_slots].dtype](const LaunchArguments& a) {
      store.run(a.pool, {a.inputs[Op::in_cache], input<float>(a, Op::in_scales)}, a.inputs[Op::in_rows],
                a.inputs[Op::in_slots], type, {a.outputs[0], output<float>(a, 1)});
    };
    return std::make_unique<SimpleLaunch<decltype(run)>>(run);
  }
  bool can_run_in_place(size_t i, size_t o) const override { return i == o; }
};

std::optional<double> estimate_paged_quantize(const RegionView& region) {
  using Op = ops::PagedQuantize;
  if (!region.node.op.as<Op>() || region.node.outputs.size() != 2) return std::nullopt;
  const TensorType& rows = region.graph.type(region.node.inputs[Op::in_rows]);
  if (!is_narrow_float(rows.dtype)) return std::nullopt;
  const double elements = elements_at_optimum(region, region.node.inputs[Op::in_rows]);
  return seconds_per_launch + elements * (bit_width(rows.dtype) / 8 + 1) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_paged_quantize(const RegionView&, PackedConstants&) {
  return std::make_shared<PagedQuantizeKernel>();
}

class PagedAttentionLaunch final : public Launch {
 public:
  PagedAttentionLaunch(const ops::PagedAttention& op, const KernelShapes& shapes) : threads_(shapes.threads) {
    using Op = ops::PagedAttention;
    const Dims &query = shapes.inputs[Op::in_query].dims, &keys = shapes.inputs[Op::in_keys].dims;
    const Dims &values = shapes.inputs[Op::in_values].dims, &table = shapes.inputs[Op::in_table].dims;
    check_paged_attention(op, shapes);
    has_sink_ = has_sinks(shapes);
    args_.tokens = query[0];
    args_.sequences = table[0];
    args_.width = table[1];
    args_.blocks = keys[0];
    args_.block_size = keys[1];
    args_.heads = op.heads;
    args_.key_heads = keys[2];
    args_.size = keys[3];
    args_.value_size = values[3];
    args_.scale = static_cast<float>(op.scale);
    args_.softcap = static_cast<float>(op.softcap);
    args_.window = op.window;
    args_.causal = op.causal;
    args_.query_type = shapes.inputs[Op::in_query].dtype;
    args_.key_type = shapes.inputs[Op::in_keys].dtype;
    args_.value_type = shapes.inputs[Op::in_values].dtype;
    args_.has_key_scales = has_scales(shapes, Op::in_key_scales);
    args_.has_value_scales = has_scales(shapes, Op::in_value_scales);
    has_bias_ = has_scales(shapes, Op::in_relative_bias);
    if (has_bias_) args_.reach = shapes.inputs[Op::in_relative_bias].dims[1] / 2;
  }

  size_t workspace_bytes() const override {
    return static_cast<size_t>(paged_attention_workspace_bytes(args_, threads_));
  }

  void run(const LaunchArguments& arguments) override {
    using Op = ops::PagedAttention;
    PagedAttentionArgs a = args_;
    a.query = arguments.inputs[Op::in_query];
    a.keys = arguments.inputs[Op::in_keys];
    a.values = arguments.inputs[Op::in_values];
    a.starts = input<int32_t>(arguments, Op::in_starts);
    a.past = input<int32_t>(arguments, Op::in_past);
    a.table = input<int32_t>(arguments, Op::in_table);
    a.sink = has_sink_ ? input<float>(arguments, Op::in_sink) : nullptr;
    a.key_scales = a.has_key_scales ? input<float>(arguments, Op::in_key_scales) : nullptr;
    a.value_scales = a.has_value_scales ? input<float>(arguments, Op::in_value_scales) : nullptr;
    a.relative_bias = has_bias_ ? input<float>(arguments, Op::in_relative_bias) : nullptr;
    a.result = arguments.outputs[0];
    ops::check_sequences({.starts = a.starts,
                          .past = a.past,
                          .table = a.table,
                          .sequences = a.sequences,
                          .width = a.width,
                          .tokens = a.tokens,
                          .blocks = a.blocks,
                          .block_size = a.block_size,
                          .causal = a.causal});
    paged_attention(a, arguments.pool, arguments.workspace);
  }

 private:
  int threads_;
  bool has_sink_ = false, has_bias_ = false;
  PagedAttentionArgs args_;
};

class PagedAttentionKernel final : public Kernel {
 public:
  explicit PagedAttentionKernel(ops::PagedAttention op) : op_(op) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<PagedAttentionLaunch>(op_, shapes);
  }

 private:
  ops::PagedAttention op_;
};

std::optional<double> estimate_paged_attention(const RegionView& region) {
  using Op = ops::PagedAttention;
  const auto* op = region.node.op.as<Op>();
  if (!op) return std::nullopt;
  const auto type = [&](size_t i) -> const TensorType& { return region.graph.type(region.node.inputs[i]); };
  if (!is_narrow_float(type(Op::in_query).dtype)) return std::nullopt;
  for (const size_t i : {Op::in_keys, Op::in_values})
    if (const DType t = type(i).dtype; !is_narrow_float(t) && t != DType::i8 && t != DType::f8e4m3) return std::nullopt;
  for (size_t i = Op::in_sink; i < region.node.inputs.size(); ++i)
    if (region.node.inputs[i] != no_value && type(i).dtype != DType::f32) return std::nullopt;
  const double length =
      size_at_optimum(region, type(Op::in_table).shape[1]) * size_at_optimum(region, type(Op::in_keys).shape[1]);
  const double flops = 4 * elements_at_optimum(region, region.node.inputs[Op::in_query]) * length;
  return seconds_per_launch + 1.2 * flops * seconds_per_flop;
}

std::shared_ptr<const Kernel> compile_paged_attention(const RegionView& region, PackedConstants&) {
  return std::make_shared<PagedAttentionKernel>(*region.node.op.as<ops::PagedAttention>());
}

}  // namespace

const CpuTactic paged_store_tactic{"paged_store", estimate_paged_store, compile_paged_store};
const CpuTactic paged_quantize_tactic{"paged_quantize", estimate_paged_quantize, compile_paged_quantize};
const CpuTactic paged_attention_tactic{"paged_attention", estimate_paged_attention, compile_paged_attention};

}  // namespace camshaft::cpu
