#include "cpu/matmul.h"

#include <algorithm>

#include "compile/layout_text.h"
#include "compile/shape_check.h"
#include "cpu/contract_epilogue.h"
#include "cpu/kernels/gemm.h"
#include "ops/contract.h"

namespace camshaft::cpu {

namespace {

struct MatMulView {
  ContractView contract;
  ContractEpilogue epilogue;
  bool transpose_a = false, transpose_b = false;
  int32_t a = -1, b = -1;  // region inputs
};

// `residuals`: see ContractEpilogue::make.
std::optional<MatMulView> view_matmul(const RegionView& region, int residuals = 1) {
  std::optional<ContractView> contract = view_contract(region);
  if (!contract) return std::nullopt;
  const auto* op = contract->anchor->op.as<ops::MatMul>();
  if (!op) return std::nullopt;
  std::optional<ContractEpilogue> epilogue = ContractEpilogue::make(region, *contract, -1, residuals);
  if (!epilogue) return std::nullopt;
  MatMulView view{std::move(*contract), std::move(*epilogue), op->transpose_a, op->transpose_b, 0, 0};
  view.a = view.contract.anchor_inputs[0];
  view.b = view.contract.anchor_inputs[1];
  return view;
}

double flops(const RegionView& region, const MatMulView& view) {
  const ValueId a = region.node.inputs[static_cast<size_t>(view.a)];
  const Shape& shape = region.graph.shape(a);
  return 2 * elements_at_optimum(region, region.node.outputs[0]) *
         size_at_optimum(region, shape[shape.size() - (view.transpose_a ? 2 : 1)]);
}

// ---- constant right-hand side

bool is_matrix(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end() - 2, [](const Dim& d) { return d == Dim(1); });
}

struct PackedMatrix {
  PackedLayout layout;
  bool transposed = false;  // as stored in the model
};

constexpr auto packed_numbers = [](auto& matrix, auto&& number) {
  number("gemm k=", matrix.layout.k);
  number(" n=", matrix.layout.n);
  number(" width=", matrix.layout.width);
  number(" lanes=", matrix.layout.lanes);
  number(" transposed=", matrix.transposed);
};

class GemmLaunch final : public Launch {
 public:
  GemmLaunch(const MatMulView& view, const float* packed, const KernelShapes& shapes)
      : a_(static_cast<size_t>(view.a)),
        packed_(packed),
        threads_(shapes.threads),
        epilogue_(view.epilogue, shapes, shapes.outputs[0].dims.back()) {
    const Dims& a = shapes.inputs[a_].dims;
    const Dims& c = shapes.outputs[0].dims;
    args_.k = a.back();
    args_.n = c.back();
    const Dims& b = shapes.inputs[static_cast<size_t>(view.b)].dims;
    require_equal(args_.k, b[b.size() - (view.transpose_b ? 1 : 2)], "the size that matmul sums over");
    require_broadcast(Dims(a.begin(), a.end() - 2), Dims(c.begin(), c.end() - 2));
    args_.m = args_.n == 0 ? 0 : element_count(c) / args_.n;
    args_.lda = shapes.inputs[a_].pitch();
    args_.ldc = shapes.outputs[0].pitch();
  }
  size_t workspace_bytes() const override {
    return static_cast<size_t>(gemm_workspace_bytes(args_.m, args_.n, threads_));
  }
  void run(const LaunchArguments& arguments) override {
    args_.a = reinterpret_cast<const float*>(arguments.inputs[a_]);
    args_.packed_b = packed_;
    args_.c = reinterpret_cast<float*>(arguments.outputs[0]);
    args_.epilogue = epilogue_.bind(arguments, args_.c);
    gemm(args_, arguments.pool, arguments.workspace);
  }

 private:
  size_t a_;
  const float* packed_;
  int threads_;
  BoundEpilogue epilogue_;
  GemmArgs args_;
};

class GemmKernel final : public Kernel {
 public:
  GemmKernel(MatMulView view, const float* packed) : view_(std::move(view)), packed_(packed) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<GemmLaunch>(view_, packed_, shapes);
  }
  bool can_run_in_place(size_t i, size_t) const override { return view_.epilogue.can_overwrite(i); }
  bool reads_slices(size_t i) const override { return view_.epilogue.reads_slices(i); }
  bool writes_slices(size_t) const override { return true; }
  bool reads_input(size_t i) const override { return static_cast<int32_t>(i) != view_.b || view_.epilogue.reads(i); }

 private:
  MatMulView view_;
  const float* packed_;
};

std::optional<double> estimate_gemm(const RegionView& region) {
  const auto view = view_matmul(region);
  if (!view || view->transpose_a) return std::nullopt;
  const ValueId b = region.node.inputs[static_cast<size_t>(view->b)];
  if (!region.graph.is_constant(b) || !is_matrix(region.graph.shape(b)) || region.graph.type(b).dtype != DType::f32)
    return std::nullopt;
  return seconds_per_launch +
         std::max(flops(region, *view) * seconds_per_flop, bytes_at_optimum(region) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_gemm(const RegionView& region, PackedConstants& constants) {
  MatMulView view = *view_matmul(region, 1 + kMoreResiduals);
  const Value& b = region.graph.value(region.node.inputs[static_cast<size_t>(view.b)]);
  const Dims& dims = b.constant->dims();
  const int64_t rows = dims[dims.size() - 2], columns = dims[dims.size() - 1];
  const bool transposed = view.transpose_b;
  const PackedLayout layout = packed_layout(transposed ? columns : rows, transposed ? rows : columns);
  const auto bytes =
      constants.get(b.name, layout_text(packed_numbers, PackedMatrix{layout, transposed}), *b.constant,
                    static_cast<size_t>(layout.floats()) * sizeof(float), [&](const Tensor& raw, std::byte* out) {
                      pack_b(layout, raw.as<float>(), transposed ? 1 : columns, transposed ? columns : 1,
                             reinterpret_cast<float*>(out));
                    });
  return std::make_shared<GemmKernel>(std::move(view), reinterpret_cast<const float*>(bytes.data()));
}

// ---- any operands

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
    args_.k = view.transpose_a ? a[a.size() - 2] : a.back();
    args_.a_row_stride = view.transpose_a ? 1 : a.back();
    args_.a_k_stride = view.transpose_a ? a.back() : 1;
    args_.b_k_stride = view.transpose_b ? 1 : b.back();
    args_.b_n_stride = view.transpose_b ? b.back() : 1;
    args_.c_row_stride = args_.n;
    require_equal(args_.k, view.transpose_b ? b.back() : b[b.size() - 2], "the size that matmul sums over");
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
  if (!view) return std::nullopt;
  for (const int32_t i : {view->a, view->b})
    if (region.graph.type(region.node.inputs[static_cast<size_t>(i)]).dtype != DType::f32) return std::nullopt;
  // Packing the right-hand side costs a pass over it: 1.5 of its bytes' time on top.
  return seconds_per_launch +
         1.2 * std::max(flops(region, *view) * seconds_per_flop, 1.5 * bytes_at_optimum(region) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_batch_gemm(const RegionView& region, PackedConstants&) {
  return std::make_shared<BatchGemmKernel>(*view_matmul(region));
}

}  // namespace

const CpuTactic gemm_tactic{"gemm", estimate_gemm, compile_gemm};
const CpuTactic batch_gemm_tactic{"batch_gemm", estimate_batch_gemm, compile_batch_gemm};

Tensor unpack_gemm(const PackedConstant& packed, DType dtype, const Dims& dims) {
  PackedMatrix named;
  if (!read_layout_text(packed.layout, packed_numbers, named)) return {};
  const auto& [layout, transposed] = named;
  const size_t rank = dims.size();
  const bool matrix = rank >= 2 && element_count(dims) == dims[rank - 2] * dims[rank - 1];
  const bool sane = dtype == DType::f32 && matrix && layout.k == dims[rank - (transposed ? 1 : 2)] &&
                    layout.n == dims[rank - (transposed ? 2 : 1)] && layout.width > 0 && layout.lanes > 0 &&
                    layout.width % layout.lanes == 0 && layout.width <= 4096;
  if (!sane || packed.bytes.size() != static_cast<size_t>(layout.floats()) * sizeof(float)) throw_misfit(packed, dims);
  Tensor raw(dtype, dims);
  const int64_t columns = dims.back();
  unpack_b(layout, reinterpret_cast<const float*>(packed.bytes.data()), raw.as_mutable<float>(),
           transposed ? 1 : columns, transposed ? columns : 1);
  return raw;
}

}  // namespace camshaft::cpu
