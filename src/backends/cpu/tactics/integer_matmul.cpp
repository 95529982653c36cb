#include "backends/cpu/tactics/integer_matmul.h"

#include <algorithm>

#include "backends/cpu/kernels/gemm/dynamic_quantize.h"
#include "backends/cpu/tactics/integer_epilogue.h"
#include "backends/cpu/tactics/integer_operands.h"
#include "backends/cpu/tactics/integer_weights.h"
#include "compile/plan/shape_check.h"
#include "ir/ops/broadcast.h"
#include "ir/ops/quantized.h"

namespace camshaft::cpu {

namespace {

struct IntegerMatMulView {
  ContractView contract;
  IntegerEpilogue epilogue;
  int32_t a = -1, b = -1, a_zero = -1, b_zero = -1;  // region inputs
  bool packed = false;                               // b is a constant matrix
};

bool is_one(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](const Dim& d) { return d == Dim(1); });
}

std::optional<IntegerMatMulView> view_integer_matmul(const RegionView& region) {
  std::optional<ContractView> contract = view_byte_contract(region);
  if (!contract || !contract->anchor->op.as<ops::IntegerMatMul>()) return std::nullopt;
  std::optional<IntegerEpilogue> epilogue = IntegerEpilogue::make(region, *contract);
  if (!epilogue) return std::nullopt;
  IntegerMatMulView view{std::move(*contract), std::move(*epilogue)};
  std::vector<int32_t> inputs = view.contract.anchor_inputs;
  inputs.resize(4, -1);
  view.a = inputs[0], view.b = inputs[1], view.a_zero = inputs[2], view.b_zero = inputs[3];
  const auto shape = [&](int32_t i) -> const Shape& {
    return region.graph.shape(region.node.inputs[static_cast<size_t>(i)]);
  };
  const Shape &a = shape(view.a), &b = shape(view.b);
  const bool one_b = is_one(Shape(b.begin(), b.end() - 2));
  view.packed = one_b && region.graph.is_constant(region.node.inputs[static_cast<size_t>(view.b)]);
  // One zero point, or one a row of a single matrix, or one a column.
  if (view.a_zero >= 0 && !is_one(shape(view.a_zero))) {
    const Shape& zero = shape(view.a_zero);
    if (a.size() != 2 || !one_b || zero.size() != 2 || zero[0] != a[0]) return std::nullopt;
  }
  if (view.b_zero >= 0 && !is_one(shape(view.b_zero))) {
    const Shape& zero = shape(view.b_zero);
    if (zero.back() != b.back() || !is_one(Shape(zero.begin(), zero.end() - 1))) return std::nullopt;
  }
  return view;
}

class IntegerMatMulLaunch final : public Launch {
 public:
  IntegerMatMulLaunch(const IntegerMatMulView& view, const std::byte* packed, const KernelShapes& shapes)
      : view_(view),
        packed_(packed),
        threads_(shapes.threads),
        epilogue_(view.epilogue, shapes, shapes.outputs[0].dims.back()),
        weights_(weights_of(view, shapes)),
        zeros_(weights_, row_zeros_of(view, shapes)) {
    const auto input = [&](int32_t i) -> const OperandShape& { return shapes.inputs[static_cast<size_t>(i)]; };
    const Dims &a = input(view.a).dims, &b = input(view.b).dims, &c = shapes.outputs[0].dims;
    require_equal(a.back(), b[b.size() - 2], "the size that a product sums over");
    const Dims batch(c.begin(), c.end() - 2), a_batch(a.begin(), a.end() - 2), b_batch(b.begin(), b.end() - 2);
    require_broadcast(a_batch, batch);
    require_broadcast(b_batch, batch);
    a_ = {input(view.a).dtype};
    b_ = {input(view.b).dtype};
    a_.count = view.a_zero < 0 ? 0 : element_count(input(view.a_zero).dims);
    b_.count = view.b_zero < 0 ? 0 : element_count(input(view.b_zero).dims);
    if (a_.count > 1) require_equal(a_.count, c[c.size() - 2], "the number of zero points of rows");
    if (b_.count > 1) require_equal(b_.count, c.back(), "the number of zero points of columns");
    row_stride_ = input(view.a).pitch();
    rows_ = c[c.size() - 2];
    if (element_count(c) == 0) return;
    if (element_count(b_batch) == 1 && element_count(a_batch) == element_count(batch)) {
      rows_ *= element_count(batch);  // one tall matrix
      calls_ = {{0, 0}};
      return;
    }
    const Dims a_steps = ops::broadcast_strides(a_batch, batch), b_steps = ops::broadcast_strides(b_batch, batch);
    const int64_t a_matrix = a[a.size() - 2] * row_stride_, b_matrix = b[b.size() - 2] * b.back();
    for (int64_t i = 0; i < element_count(batch); ++i) {
      Call call{0, 0};
      int64_t rest = i;
      for (size_t d = batch.size(); d-- > 0; rest /= batch[d]) {
        call.a += rest % batch[d] * a_steps[d] * a_matrix;
        call.b += rest % batch[d] * b_steps[d] * b_matrix;
      }
      calls_.push_back(call);
    }
  }

  size_t workspace_bytes() const override {
    return static_cast<size_t>(scratch_bytes() + (packed_ ? 0 : weights_.bytes()));
  }

  void run(const LaunchArguments& arguments) override {
    const auto input = [&](int32_t i) { return i < 0 ? nullptr : arguments.inputs[static_cast<size_t>(i)]; };
    a_.zeros = input(view_.a_zero);
    b_.zeros = input(view_.b_zero);
    Int8Problem p;
    p.m = rows_;
    p.weights = &weights_;
    p.packed = packed_;
    p.rows.depth = weights_.depth;
    p.rows.row_stride = row_stride_;
    p.rows.flip = a_.dtype == DType::i8;
    epilogue_.bind(arguments, p);
    for (size_t i = 0; i < calls_.size(); ++i) {
      p.rows.base = reinterpret_cast<const uint8_t*>(input(view_.a)) + calls_[i].a;
      p.row0 = static_cast<int64_t>(i) * rows_;
      if (!packed_ && (i == 0 || calls_[i].b != calls_[i - 1].b)) {
        std::byte* own = arguments.workspace + scratch_bytes();
        pack_int8(weights_, reinterpret_cast<const uint8_t*>(input(view_.b)) + calls_[i].b, b_.dtype == DType::u8, own);
        p.packed = own;
      }
      zeros_.bind(a_, b_, nullptr, 0, p);
      int8_gemm(p, arguments.pool, arguments.workspace);
    }
  }

 private:
  struct Call {
    int64_t a, b;  // where the matrices start
  };

  static Int8Weights weights_of(const IntegerMatMulView& view, const KernelShapes& shapes) {
    const Dims& b = shapes.inputs[static_cast<size_t>(view.b)].dims;
    return int8_weights(1, b.back(), 1, b[b.size() - 2], true);
  }
  static int64_t row_zeros_of(const IntegerMatMulView& view, const KernelShapes& shapes) {
    return view.a_zero < 0 ? 0 : element_count(shapes.inputs[static_cast<size_t>(view.a_zero)].dims);
  }
  int64_t scratch_bytes() const {
    return int8_workspace_bytes(weights_, rows_, 1, view_.epilogue.gives_blocks(), threads_);
  }

  const IntegerMatMulView& view_;
  const std::byte* packed_;  // null: b is packed in each run
  int threads_;
  BoundIntegerEpilogue epilogue_;
  Int8Weights weights_;
  ZeroTerms zeros_;
  IntegerOperand a_, b_;
  int64_t rows_ = 0, row_stride_ = 0;
  std::vector<Call> calls_;  // in order of the result
};

class IntegerMatMulKernel final : public Kernel {
 public:
  IntegerMatMulKernel(IntegerMatMulView view, const std::byte* packed) : view_(std::move(view)), packed_(packed) {}
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<IntegerMatMulLaunch>(view_, packed_, shapes);
  }
  bool reads_input(size_t i) const override {
    return !packed_ || static_cast<int32_t>(i) != view_.b || view_.epilogue.reads(i);
  }

 private:
  IntegerMatMulView view_;
  const std::byte* packed_;
};

// Four products of 8 bits take the place of one of f32.
constexpr double seconds_per_product = 2 * seconds_per_flop / 4;

std::optional<double> estimate_matmul(const RegionView& region) {
  const auto view = view_integer_matmul(region);
  if (!view) return std::nullopt;
  const Shape& a = region.graph.shape(region.node.inputs[static_cast<size_t>(view->a)]);
  const double products = elements_at_optimum(region, region.node.outputs[0]) * size_at_optimum(region, a.back());
  return seconds_per_launch + std::max(products * seconds_per_product, bytes_at_optimum(region) * seconds_per_byte);
}

std::shared_ptr<const Kernel> compile_matmul(const RegionView& region, PackedConstants& constants) {
  IntegerMatMulView view = *view_integer_matmul(region);
  const std::byte* packed = nullptr;
  if (view.packed) {
    const auto b = static_cast<size_t>(view.b);
    const Dims& dims = region.graph.value(region.node.inputs[b]).constant->dims();
    const Int8Weights weights = int8_weights(1, dims.back(), 1, dims[dims.size() - 2], true);
    packed = packed_integer_weights(region, b, weights, constants);
  }
  return std::make_shared<IntegerMatMulKernel>(std::move(view), packed);
}

class DynamicQuantizeLaunch final : public Launch {
 public:
  explicit DynamicQuantizeLaunch(const KernelShapes& shapes)
      : count_(element_count(shapes.inputs[0].dims)), threads_(shapes.threads) {}
  size_t workspace_bytes() const override { return static_cast<size_t>(dynamic_quantize_workspace_bytes(threads_)); }
  void run(const LaunchArguments& arguments) override {
    dynamic_quantize(reinterpret_cast<const float*>(arguments.inputs[0]), count_,
                     reinterpret_cast<uint8_t*>(arguments.outputs[0]), reinterpret_cast<float*>(arguments.outputs[1]),
                     reinterpret_cast<uint8_t*>(arguments.outputs[2]), arguments.pool, arguments.workspace);
  }

 private:
  int64_t count_;
  int threads_;
};

class DynamicQuantizeKernel final : public Kernel {
 public:
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<DynamicQuantizeLaunch>(shapes);
  }
};

std::optional<double> estimate_quantize(const RegionView& region) {
  // Nodes may leave out their last results, as no sensible model does here: the reference takes them.
  if (!region.node.op.as<ops::DynamicQuantize>() || region.node.outputs.size() != 3) return std::nullopt;
  return seconds_per_launch + 2 * bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_quantize(const RegionView&, PackedConstants&) {
  return std::make_shared<DynamicQuantizeKernel>();
}

}  // namespace

const CpuTactic integer_matmul_tactic{"integer_matmul", estimate_matmul, compile_matmul};
const CpuTactic dynamic_quantize_tactic{"dynamic_quantize", estimate_quantize, compile_quantize};

}  // namespace camshaft::cpu
