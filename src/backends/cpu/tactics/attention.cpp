#include "backends/cpu/tactics/attention.h"

#include <algorithm>

#include "backends/cpu/kernels/attention/attention.h"
#include "backends/cpu/kernels/gemm/bf16_pairs.h"
#include "backends/cpu/tactics/simple_kernel.h"
#include "ir/ops/attention.h"

namespace camshaft::cpu {

namespace {

constexpr size_t first_mask = 3;

// The distance of neighbours, when it is positive and the same everywhere; else 0.
int64_t step_of(const Dims& offsets) {
  const int64_t step = offsets.size() < 2 ? 1 : offsets[1] - offsets[0];
  for (size_t i = 0; i < offsets.size(); ++i)
    if (offsets[i] != offsets[0] + static_cast<int64_t>(i) * step) return 0;
  return std::max<int64_t>(step, 0);
}

AttentionOperand operand(const ops::AttentionAccess& access) {
  return {nullptr, access.outer.data(), access.rows.data(), access.column, step_of(access.rows)};
}

class AttentionLaunch final : public Launch {
 public:
  AttentionLaunch(const ops::Attention& op, bool rounds, const KernelShapes& shapes) : threads_(shapes.threads) {
    std::vector<Dims> inputs;
    for (const OperandShape& input : shapes.inputs) inputs.push_back(input.dims);
    bound_ = ops::bind_attention(op, inputs, shapes.outputs[0].dims, *shapes.symbols);
    args_.outer = bound_.outer;
    args_.queries = bound_.queries;
    args_.keys = bound_.keys;
    args_.size = op.size;
    args_.value_size = op.value_size;
    args_.scale = static_cast<float>(op.scale);
    args_.softcap = static_cast<float>(op.softcap);
    args_.zero_undefined = op.zero_undefined;
    args_.rounds = rounds;
    args_.query = operand(bound_.query);
    args_.key = operand(bound_.key);
    args_.value = operand(bound_.value);
    args_.result_place = operand(bound_.result);
    for (size_t m = 0; m < bound_.masks.size(); ++m) {
      const ops::AttentionAccess& access = bound_.masks[m];
      AttentionMask mask;
      mask.masked = static_cast<float>(op.masked[m]);
      mask.outer = access.outer.data();
      mask.rows = access.rows.data();
      mask.columns = access.columns.data();
      mask.one_column = std::all_of(access.columns.begin(), access.columns.end(), [](int64_t c) { return c == 0; });
      mask.neighbours = !mask.one_column && step_of(access.columns) == 1;
      is_bool_.push_back(shapes.inputs[first_mask + m].dtype == DType::boolean);
      masks_.push_back(mask);
    }
    args_.mask_count = static_cast<int64_t>(masks_.size());
  }

  size_t workspace_bytes() const override { return static_cast<size_t>(attention_workspace_bytes(args_, threads_)); }

  void run(const LaunchArguments& arguments) override {
    args_.query.data = input<float>(arguments, 0);
    args_.key.data = input<float>(arguments, 1);
    args_.value.data = input<float>(arguments, 2);
    args_.result = output<float>(arguments, 0);
    for (size_t m = 0; m < masks_.size(); ++m) {
      if (is_bool_[m]) {
        masks_[m].kept = input<uint8_t>(arguments, first_mask + m);
      } else {
        masks_[m].added = input<float>(arguments, first_mask + m);
      }
    }
    args_.masks = masks_.data();
    attention(args_, arguments.pool, arguments.workspace);
  }

 private:
  int threads_;
  ops::BoundAttention bound_;  // its tables are pointed at
  AttentionArgs args_;
  std::vector<AttentionMask> masks_;
  std::vector<bool> is_bool_;
};

class AttentionKernel final : public Kernel {
 public:
  AttentionKernel(ops::Attention op, bool rounds) : op_(std::move(op)), rounds_(rounds) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<AttentionLaunch>(op_, rounds_, shapes);
  }

 private:
  ops::Attention op_;
  bool rounds_;
};

// `rate`: of the products, as a part of that of f32.
std::optional<double> estimate_at_rate(const RegionView& region, double rate) {
  const auto* op = region.node.op.as<ops::Attention>();
  if (!op || op->masked.size() > static_cast<size_t>(most_attention_masks)) return std::nullopt;
  for (size_t i = 0; i < region.node.inputs.size(); ++i) {
    const DType dtype = region.graph.type(region.node.inputs[i]).dtype;
    if (dtype != DType::f32 && (i < first_mask || dtype != DType::boolean)) return std::nullopt;
  }
  double scores = 1;
  for (const Shape* sizes : {&op->outer, &op->queries, &op->keys})
    for (const Dim& d : *sizes) scores *= size_at_optimum(region, d);
  // 16: the softmax, and as much for a cap. Each by itself: a file may name any sizes.
  const double exponentials = op->softcap > 0 ? 32 : 16;
  const double flops =
      2 * scores * ((static_cast<double>(op->size) + static_cast<double>(op->value_size)) / rate + exponentials);
  return seconds_per_launch + std::max(1.2 * flops * seconds_per_flop, bytes_at_optimum(region) * seconds_per_byte);
}

std::optional<double> estimate_attention(const RegionView& region) {
  return estimate_at_rate(region, 1);
}

std::optional<double> estimate_attention_bf16(const RegionView& region) {
  const auto* op = region.node.op.as<ops::Attention>();
  if (!op || op->rounding != ops::Rounding::bf16 || !has_bf16_pairs()) return std::nullopt;
  return estimate_at_rate(region, 2);
}

std::shared_ptr<const Kernel> compile_attention(const RegionView& region, PackedConstants&) {
  return std::make_shared<AttentionKernel>(*region.node.op.as<ops::Attention>(), false);
}

std::shared_ptr<const Kernel> compile_attention_bf16(const RegionView& region, PackedConstants&) {
  return std::make_shared<AttentionKernel>(*region.node.op.as<ops::Attention>(), true);
}

}  // namespace

const CpuTactic attention_tactic{"attention", estimate_attention, compile_attention};
const CpuTactic attention_bf16_tactic{"attention_bf16", estimate_attention_bf16, compile_attention_bf16};

}  // namespace camshaft::cpu
