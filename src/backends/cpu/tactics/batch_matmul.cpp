#include <algorithm>

#include "backends/cpu/tactics/matmul.h"
#include "backends/cpu/tactics/matmul_view.h"
#include "compile/plan/shape_check.h"

namespace camshaft::cpu {

namespace {

// One matrix product a batch element. Leading axes beyond two are walked here; two go to batch_gemm.
class BatchGemmLaunch final : public Launch {
 public:
  BatchGemmLaunch(const MatMulView& view, const KernelShapes& shapes)
      : a_(static_cast<size_t>(view.a)),
        b_(static_cast<size_t>(view.b)),
        threads_(shapes.threads),
        epilogue_(view.epilogue, shapes, shapes.outputs[0].dims.back()) {
    const Dims& a = shapes.inputs[a_].dims;
    const Dims& b = shapes.inputs[b_].dims;
    const Dims& c = shapes.outputs[0].dims;
    args_.m = c[c.size() - 2];
    args_.n = c.back();
    args_.k = view.op.transpose_a ? a[a.size() - 2] : a.back();
    args_.a_row_stride = view.op.transpose_a ? 1 : a.back();
    args_.a_k_stride = view.op.transpose_a ? a.back() : 1;
    args_.b_k_stride = view.op.transpose_b ? 1 : b.back();
    args_.b_n_stride = view.op.transpose_b ? b.back() : 1;
    args_.c_row_stride = args_.n;
    require_equal(args_.k, view.op.transpose_b ? b.back() : b[b.size() - 2], "the size that matmul sums over");
    for (const Dims* operand : {&a, &b})
      require_broadcast(Dims(operand->begin(), operand->end() - 2), Dims(c.begin(), c.end() - 2));
    if (element_count(c) == 0) return;  // nothing to compute
    // Batch axes with the strides of each operand, neighbours merged where all three allow it.
    struct Axis {
      int64_t size, a, b, c;
    };
    std::vector<Axis> axes;
    const int64_t a_matrix = a[a.size() - 2] * a.back(), b_matrix = b[b.size() - 2] * b.back(),
                  c_matrix = args_.m * args_.n;
    const auto strides = [&](const Dims& dims, int64_t matrix) {
      std::vector<int64_t> s(c.size() - 2, 0);
      int64_t stride = matrix;
      for (size_t i = 0; i + 2 < dims.size(); ++i) {
        const size_t d = dims.size() - 3 - i;
        s[c.size() - 3 - i] = dims[d] == 1 ? 0 : stride;
        stride *= dims[d];
      }
      return s;
    };
    const std::vector<int64_t> sa = strides(a, a_matrix), sb = strides(b, b_matrix), sc = strides(c, c_matrix);
    for (size_t d = 0; d + 2 < c.size(); ++d) {
      const Axis axis{c[d], sa[d], sb[d], sc[d]};
      if (axis.size == 1) continue;
      if (!axes.empty() && axes.back().a == axis.a * axis.size && axes.back().b == axis.b * axis.size &&
          axes.back().c == axis.c * axis.size) {
        axes.back() = {axes.back().size * axis.size, axis.a, axis.b, axis.c};
      } else {
        axes.push_back(axis);
      }
    }
    // Products that share B are one with more rows: 16 of 2 x 331 by 331 x 55 took 13 us one by one.
    while (!axes.empty() && axes.back().b == 0 && axes.back().a == args_.m * args_.a_row_stride &&
           axes.back().c == args_.m * args_.c_row_stride) {
      args_.m *= axes.back().size;
      axes.pop_back();
    }
    Axis inner{1, 0, 0, 0}, outer{1, 0, 0, 0};
    if (!axes.empty()) {
      inner = axes.back();
      axes.pop_back();
    }
    if (!axes.empty()) {
      outer = axes.back();
      axes.pop_back();
    }
    args_.batch = inner.size * outer.size;
    args_.inner_batch = std::max<int64_t>(inner.size, 1);
    args_.a_inner_stride = inner.a;
    args_.b_inner_stride = inner.b;
    args_.c_inner_stride = inner.c;
    args_.a_outer_stride = outer.a;
    args_.b_outer_stride = outer.b;
    args_.c_outer_stride = outer.c;
    // What is left: offsets of every call, in order of the result.
    calls_.push_back({0, 0, 0});
    for (const Axis& axis : axes) {
      std::vector<Call> next;
      for (const Call& call : calls_)
        for (int64_t i = 0; i < axis.size; ++i)
          next.push_back({call.a + i * axis.a, call.b + i * axis.b, call.c + i * axis.c});
      calls_ = std::move(next);
    }
  }

  size_t workspace_bytes() const override { return static_cast<size_t>(batch_gemm_workspace_bytes(args_, threads_)); }

  void run(const LaunchArguments& arguments) override {
    auto* c = reinterpret_cast<float*>(arguments.outputs[0]);
    const Epilogue epilogue = epilogue_.bind(arguments, c);
    BatchGemmArgs args = args_;
    for (const Call& call : calls_) {
      args.a = reinterpret_cast<const float*>(arguments.inputs[a_]) + call.a;
      args.b = reinterpret_cast<const float*>(arguments.inputs[b_]) + call.b;
      args.c = c + call.c;
      args.epilogue = epilogue;
      if (epilogue.residual) args.epilogue.residual = epilogue.residual + call.c;
      if (epilogue.addend) args.epilogue.addend = epilogue.addend + call.c;
      Shift shift{epilogue, args_.n == 0 ? 0 : call.c / args_.n};
      if (epilogue.callback && shift.rows != 0) {
        args.epilogue.callback = &Shift::run;
        args.epilogue.context = &shift;
      }
      batch_gemm(args, arguments.pool, arguments.workspace);
    }
  }

 private:
  struct Call {
    int64_t a, b, c;
  };
  // Blocks of a later call count their rows from its start.
  struct Shift {
    const Epilogue& epilogue;
    int64_t rows;
    static void run(void* self, int64_t row0, int64_t rows, int64_t col0, int64_t cols) {
      const auto& s = *static_cast<const Shift*>(self);
      s.epilogue.callback(s.epilogue.context, row0 + s.rows, rows, col0, cols);
    }
  };

  size_t a_, b_;
  int threads_;
  BoundEpilogue epilogue_;
  BatchGemmArgs args_;
  std::vector<Call> calls_;
};

class BatchGemmKernel final : public Kernel {
 public:
  explicit BatchGemmKernel(MatMulView view) : view_(std::move(view)) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<BatchGemmLaunch>(view_, shapes);
  }

 private:
  MatMulView view_;
};

std::optional<double> estimate_batch_gemm(const RegionView& region) {
  const auto view = view_matmul(region);
  // gemm packs a constant matrix once: 3 % faster at 1500 rows, 14 % at 197, and noise must not decide otherwise.
  if (!view) return std::nullopt;
  if (has_constant_matrix(region, *view)) return std::nullopt;
  for (const int32_t i : {view->a, view->b})
    if (region.graph.type(region.node.inputs[static_cast<size_t>(i)]).dtype != DType::f32) return std::nullopt;
  // Packing the right-hand side costs a pass over it: 1.5 of its bytes' time on top.
  return seconds_per_launch + 1.2 * std::max(matmul_flops(region, *view) * seconds_per_flop,
                                             1.5 * bytes_at_optimum(region) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_batch_gemm(const RegionView& region, PackedConstants&) {
  return std::make_shared<BatchGemmKernel>(*view_matmul(region));
}

}  // namespace

const CpuTactic batch_gemm_tactic{"batch_gemm", estimate_batch_gemm, compile_batch_gemm};

}  // namespace camshaft::cpu
