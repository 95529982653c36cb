#include "backends/cpu/tactics/matmul.h"

#include <algorithm>

#include "backends/cpu/kernels/gemm/bf16_pairs.h"
#include "backends/cpu/kernels/gemm/gemm.h"
#include "backends/cpu/tactics/matmul_view.h"
#include "compile/constants/layout_text.h"
#include "compile/plan/shape_check.h"

namespace camshaft::cpu {

namespace {

struct PackedMatrix {
  PackedLayout layout;
  bool transposed = false;  // as stored in the model
};

constexpr auto matrix_numbers = [](auto& matrix, auto&& number) {
  number("gemm k=", matrix.layout.k);
  number(" n=", matrix.layout.n);
  number(" width=", matrix.layout.width);
  number(" lanes=", matrix.layout.lanes);
  number(" transposed=", matrix.transposed);
};

struct PackedPairs {
  PairedMatrix matrix;
  bool transposed = false;
};

// Of two-element words; `k` counts elements.
constexpr auto matrix_pair_numbers = [](auto& packed, auto&& number) {
  number("gemm_bf16 k=", packed.matrix.depth);
  number(" n=", packed.matrix.layout.n);
  number(" width=", packed.matrix.layout.width);
  number(" lanes=", packed.matrix.layout.lanes);
  number(" transposed=", packed.transposed);
};

// Whether A is copied into words of the product's kind: rounded, or widened again. Rows of bf16 are pairs as they are.
bool converts_a(const MatMulView& view, Words words) {
  return view.rounded_a == (words == Words::f32);
}

class GemmLaunch final : public Launch {
 public:
  GemmLaunch(const MatMulView& view, Words words, const float* packed, const KernelShapes& shapes)
      : a_(static_cast<size_t>(view.a)),
        converts_a_(converts_a(view, words)),
        packed_(packed),
        threads_(shapes.threads),
        epilogue_(view.epilogue, shapes, shapes.outputs[0].dims.back()) {
    const Dims& a = shapes.inputs[a_].dims;
    const Dims& c = shapes.outputs[0].dims;
    const bool turned = view.op.transpose_a;
    elements_ = a[a.size() - (turned ? 2 : 1)];
    elements_ld_ = turned ? elements_ : shapes.inputs[a_].pitch();
    if (turned && element_count(a) > 0) {
      columns_.m = a.back();
      columns_.k = elements_;
      columns_.batch = columns_.inner_batch = element_count(a) / (columns_.m * columns_.k);
      columns_.a_row_stride = 1;
      columns_.a_k_stride = columns_.m;
      columns_.a_inner_stride = columns_.m * columns_.k;
    }
    args_.words = words;
    args_.batch_invariant = view.op.batch_invariant;
    args_.k = args_.lda = words == Words::f32 ? elements_ : pairs_of(elements_);
    if (words == Words::f32) args_.lda = elements_ld_;
    args_.n = c.back();
    const Dims& b = shapes.inputs[static_cast<size_t>(view.b)].dims;
    require_equal(elements_, b[b.size() - (view.op.transpose_b ? 1 : 2)], "the size that matmul sums over");
    require_broadcast(Dims(a.begin(), a.end() - 2), Dims(c.begin(), c.end() - 2));
    args_.m = args_.n == 0 ? 0 : element_count(c) / args_.n;
    args_.ldc = shapes.outputs[0].pitch();
  }
  size_t workspace_bytes() const override {
    return static_cast<size_t>(turned_bytes() + converted_bytes() +
                               gemm_workspace_bytes(args_.m, args_.n, args_.k, threads_, args_.batch_invariant));
  }
  void run(const LaunchArguments& arguments) override {
    args_.a = reinterpret_cast<const float*>(arguments.inputs[a_]);
    std::byte* workspace = arguments.workspace;
    if (turned_bytes() > 0) {
      auto* turned = reinterpret_cast<float*>(workspace);
      columns_.a = args_.a;
      turn_a(columns_, turned, arguments.pool);
      args_.a = turned;
      workspace += turned_bytes();
    }
    if (converts_a_) {
      auto* converted = reinterpret_cast<float*>(workspace);
      if (args_.words == Words::bf16_pairs) {
        round_rows(args_.a, elements_ld_, args_.m, elements_, converted, arguments.pool);
      } else {
        widen_rounded(reinterpret_cast<const BFloat*>(args_.a), args_.m * elements_, converted, arguments.pool);
      }
      args_.a = converted;
    }
    args_.packed_b = packed_;
    args_.c = reinterpret_cast<float*>(arguments.outputs[0]);
    args_.epilogue = epilogue_.bind(arguments, args_.c);
    gemm(args_, arguments.pool, workspace + converted_bytes());
  }

 private:
  int64_t turned_bytes() const {
    const int64_t elements = columns_.batch * columns_.m * columns_.k;
    return (elements * static_cast<int64_t>(sizeof(float)) + 63) / 64 * 64;
  }
  int64_t converted_bytes() const { return converts_a_ ? (args_.m * args_.k * 4 + 63) / 64 * 64 : 0; }

  size_t a_;
  bool converts_a_;
  const float* packed_;
  int threads_;
  BoundEpilogue epilogue_;
  int64_t elements_ = 0, elements_ld_ = 0;  // of a row of A in f32
  BatchGemmArgs columns_;                   // A, where its columns are contiguous and its rows are copied first
  GemmArgs args_;
};

class GemmKernel final : public Kernel {
 public:
  GemmKernel(MatMulView view, Words words, const float* packed)
      : view_(std::move(view)), words_(words), packed_(packed) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<GemmLaunch>(view_, words_, packed_, shapes);
  }
  bool can_run_in_place(size_t i, size_t) const override { return view_.epilogue.can_overwrite(i); }
  // Pairs of bf16 lie from the first of a slice's row on, and rows of an even number of them.
  bool reads_slices(size_t i) const override {
    return view_.epilogue.reads_slices(i) && !(view_.rounded_a && static_cast<int32_t>(i) == view_.a);
  }
  bool writes_slices(size_t) const override { return true; }
  bool reads_input(size_t i) const override { return static_cast<int32_t>(i) != view_.b || view_.epilogue.reads(i); }

 private:
  MatMulView view_;
  Words words_;
  const float* packed_;
};

std::optional<double> estimate_gemm(const RegionView& region) {
  const auto view = view_matmul(region, kRoundedTaken);
  if (!view || !has_constant_matrix(region, *view)) return std::nullopt;
  if (view->rounded_a && has_bf16_products()) return std::nullopt;  // for machines that have none
  const double turned =
      view->op.transpose_a ? 2 * elements_at_optimum(region, region.node.inputs[static_cast<size_t>(view->a)]) : 0;
  return seconds_per_launch + 4 * turned * seconds_per_byte +
         std::max(matmul_flops(region, *view) * seconds_per_flop, bytes_at_optimum(region) * seconds_per_byte);
}

// Twice the rate or more, from half the weights, after a pass over A, which is in some cache.
std::optional<double> estimate_gemm_bf16(const RegionView& region) {
  const auto view = view_matmul(region, kRoundedTaken);
  if (!view || view->op.rounding != ops::Rounding::bf16 || !has_bf16_products() || !has_constant_matrix(region, *view))
    return std::nullopt;
  const double weights = elements_at_optimum(region, region.node.inputs[static_cast<size_t>(view->b)]);
  const ValueId y = region.node.outputs[0];
  const double rows =
      elements_at_optimum(region, y) / std::max(1.0, size_at_optimum(region, region.graph.shape(y).back()));
  return seconds_per_launch + (view->rounded_a ? 0 : rounding_seconds(region, view->a)) +
         std::max(matmul_flops(region, *view) * seconds_per_flop / bf16_speedup(rows),
                  (bytes_at_optimum(region) - 2 * weights) * seconds_per_byte);
}

// The constant B of `view`, as it lies in memory.
struct StoredMatrix {
  const Value& value;
  int64_t k, n, k_stride, n_stride;
};

StoredMatrix stored_matrix(const RegionView& region, const MatMulView& view) {
  const Value& value = region.graph.value(region.node.inputs[static_cast<size_t>(view.b)]);
  const Dims& dims = value.constant->dims();
  const int64_t rows = dims[dims.size() - 2], columns = dims[dims.size() - 1];
  if (view.op.transpose_b) return {value, columns, rows, 1, columns};
  return {value, rows, columns, columns, 1};
}

std::shared_ptr<const Kernel> compile_gemm(const RegionView& region, PackedConstants& constants) {
  MatMulView view = *view_matmul(region, kAllTaken);
  const StoredMatrix b = stored_matrix(region, view);
  const PackedMatrix packed{packed_layout(b.k, b.n), view.op.transpose_b};
  const auto bytes = constants.get(
      b.value.name, layout_text(matrix_numbers, packed), *b.value.constant,
      static_cast<size_t>(packed.layout.floats()) * sizeof(float), [&](const Tensor& raw, std::byte* out) {
        pack_b(packed.layout, raw.as<float>(), b.k_stride, b.n_stride, reinterpret_cast<float*>(out));
      });
  return std::make_shared<GemmKernel>(std::move(view), Words::f32, reinterpret_cast<const float*>(bytes.data()));
}

std::shared_ptr<const Kernel> compile_gemm_bf16(const RegionView& region, PackedConstants& constants) {
  MatMulView view = *view_matmul(region, kAllTaken);
  const StoredMatrix b = stored_matrix(region, view);
  const PackedPairs packed{{packed_layout(pairs_of(b.k), b.n), 1, b.k}, view.op.transpose_b};
  const auto bytes = constants.get(
      b.value.name, layout_text(matrix_pair_numbers, packed), *b.value.constant,
      static_cast<size_t>(packed.matrix.layout.floats()) * sizeof(float), [&](const Tensor& raw, std::byte* out) {
        pack_pairs(packed.matrix, raw.as<float>(), {0, b.k_stride, b.n_stride}, reinterpret_cast<float*>(out));
      });
  return std::make_shared<GemmKernel>(std::move(view), Words::bf16_pairs, reinterpret_cast<const float*>(bytes.data()));
}

// Whether a matrix of k x n, stored transposed or not, is one of `dims`.
bool is_matrix_of(const Dims& dims, int64_t k, int64_t n, bool transposed) {
  const size_t rank = dims.size();
  return rank >= 2 && element_count(dims) == dims[rank - 2] * dims[rank - 1] &&
         k == dims[rank - (transposed ? 1 : 2)] && n == dims[rank - (transposed ? 2 : 1)];
}

Tensor unpack_pairs_of(const PackedPairs& named, const PackedConstant& packed, DType dtype, const Dims& dims) {
  const auto& [matrix, transposed] = named;
  if (dtype != DType::f32 || !is_matrix_of(dims, matrix.depth, matrix.layout.n, transposed) ||
      !matrix.layout.has_possible_panels() ||
      packed.bytes.size() != static_cast<size_t>(matrix.layout.floats()) * sizeof(float))
    throw_misfit(packed, dims);
  Tensor raw(DType::bf16, dims);
  const int64_t columns = dims.back();
  unpack_pairs(matrix, reinterpret_cast<const float*>(packed.bytes.data()),
               reinterpret_cast<BFloat*>(raw.mutable_data()), {0, transposed ? 1 : columns, transposed ? columns : 1});
  return raw;
}

}  // namespace

const CpuTactic gemm_tactic{"gemm", estimate_gemm, compile_gemm};
const CpuTactic gemm_bf16_tactic{"gemm_bf16", estimate_gemm_bf16, compile_gemm_bf16};

Tensor unpack_gemm(const PackedConstant& packed, DType dtype, const Dims& dims) {
  PackedPairs pairs;
  if (read_layout_text(packed.layout, matrix_pair_numbers, pairs)) {
    pairs.matrix.layout.k = pairs_of(pairs.matrix.depth);
    return unpack_pairs_of(pairs, packed, dtype, dims);
  }
  PackedMatrix named;
  if (!read_layout_text(packed.layout, matrix_numbers, named)) return {};
  const auto& [layout, transposed] = named;
  const bool sane =
      dtype == DType::f32 && is_matrix_of(dims, layout.k, layout.n, transposed) && layout.has_possible_panels();
  if (!sane || packed.bytes.size() != static_cast<size_t>(layout.floats()) * sizeof(float)) throw_misfit(packed, dims);
  Tensor raw(dtype, dims);
  const int64_t columns = dims.back();
  unpack_b(layout, reinterpret_cast<const float*>(packed.bytes.data()), raw.as_mutable<float>(),
           transposed ? 1 : columns, transposed ? columns : 1);
  return raw;
}

}  // namespace camshaft::cpu
