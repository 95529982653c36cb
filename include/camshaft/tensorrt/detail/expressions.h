// Sizes of results as expressions of the sizes of operands.
#pragma once

#include <algorithm>
#include <deque>
#include <string>

#include "camshaft/camshaft_plugin.h"
#include "camshaft/tensorrt/detail/base.h"

namespace nvinfer1 {

enum class DimensionOperation : int32_t {
  kSUM = 0,
  kPROD = 1,
  kMAX = 2,
  kMIN = 3,
  kSUB = 4,
  kEQUAL = 5,
  kLESS = 6,
  kFLOOR_DIV = 7,
  kCEIL_DIV = 8,
};
template <>
constexpr int32_t EnumMax<DimensionOperation>() noexcept {
  return 9;
}

class IExprBuilder;

class IDimensionExpr {
 public:
  IDimensionExpr(IDimensionExpr const&) = delete;
  IDimensionExpr& operator=(IDimensionExpr const&) = delete;
  bool isConstant() const noexcept { return constant_; }
  /// INT64_MIN for what is no constant.
  int64_t getConstantValue() const noexcept { return constant_ ? value_ : INT64_MIN; }
  bool isSizeTensor() const noexcept { return size_output_ >= 0; }

  // ---- Of Camshaft ----
  IDimensionExpr(bool constant, int64_t value, camshaft_plugin_dim const* dim)
      : constant_(constant), value_(value), dim_(dim) {}
  IDimensionExpr(int32_t size_output, IDimensionExpr const* upper) : size_output_(size_output), upper_(upper) {}
  camshaft_plugin_dim const* dim() const { return dim_; }
  int32_t size_output() const { return size_output_; }
  IDimensionExpr const* upper() const { return upper_; }

 private:
  bool constant_ = false;
  int64_t value_ = 0;
  camshaft_plugin_dim const* dim_ = nullptr;  ///< while shapes are inferred
  int32_t size_output_ = -1;                  ///< which output says it
  IDimensionExpr const* upper_ = nullptr;
};

class IExprBuilder {
 public:
  IExprBuilder(IExprBuilder const&) = delete;
  IExprBuilder& operator=(IExprBuilder const&) = delete;
  IDimensionExpr const* constant(int64_t value) noexcept {
    made_.emplace_back(true, value, shapes_ ? shapes_->constant(shapes_, value) : nullptr);
    return &made_.back();
  }
  /// Null for an operation on such operands that there is not.
  IDimensionExpr const* operation(DimensionOperation op, IDimensionExpr const& first,
                                  IDimensionExpr const& second) noexcept {
    if (first.isConstant() && second.isConstant())
      return computed(op, first.getConstantValue(), second.getConstantValue());
    using Op = DimensionOperation;
    if (op == Op::kLESS)  // min(1, max(0, second - first)): sizes are integers
      return both(Op::kMIN, constant(1), both(Op::kMAX, constant(0), operation(Op::kSUB, second, first)));
    if (op == Op::kEQUAL)  // neither is less
      return both(Op::kSUB, constant(1),
                  both(Op::kSUM, operation(Op::kLESS, first, second), operation(Op::kLESS, second, first)));
    static constexpr int32_t operations[] = {CAMSHAFT_PLUGIN_ADD,
                                             CAMSHAFT_PLUGIN_MULTIPLY,
                                             CAMSHAFT_PLUGIN_MAX,
                                             CAMSHAFT_PLUGIN_MIN,
                                             CAMSHAFT_PLUGIN_SUBTRACT,
                                             -1,
                                             -1,
                                             CAMSHAFT_PLUGIN_FLOOR_DIVIDE,
                                             CAMSHAFT_PLUGIN_CEIL_DIVIDE};
    const int32_t ours = operations[static_cast<int32_t>(op)];
    if (!shapes_ || !first.dim() || !second.dim())
      return failed("an operation on a size that another output says, which is known after running");
    return keep(shapes_->combine(shapes_, ours, first.dim(), second.dim()));
  }
  IDimensionExpr const* declareSizeTensor(int32_t outputIndex, IDimensionExpr const&, IDimensionExpr const& upper) {
    made_.emplace_back(outputIndex, &upper);
    return &made_.back();
  }

  // ---- Of Camshaft ----
  /// `shapes`: of a shape rule; null where all sizes are numbers.
  explicit IExprBuilder(camshaft_plugin_shapes* shapes) : shapes_(shapes) {}
  IDimensionExpr const* keep(camshaft_plugin_dim const* dim) {
    int64_t value = 0;
    const bool known = dim && shapes_->value(shapes_, dim, &value) != 0;
    made_.emplace_back(known, value, dim);
    return &made_.back();
  }
  /// Why an expression could not be made; empty: all could.
  std::string const& failure() const { return failure_; }

 private:
  IDimensionExpr const* both(DimensionOperation op, IDimensionExpr const* first, IDimensionExpr const* second) {
    return first && second ? operation(op, *first, *second) : nullptr;
  }
  IDimensionExpr const* failed(char const* why) {
    if (failure_.empty()) failure_ = why;
    return nullptr;
  }
  IDimensionExpr const* computed(DimensionOperation op, int64_t a, int64_t b) {
    switch (op) {
      case DimensionOperation::kSUM:
        return constant(a + b);
      case DimensionOperation::kPROD:
        return constant(a * b);
      case DimensionOperation::kMAX:
        return constant(std::max(a, b));
      case DimensionOperation::kMIN:
        return constant(std::min(a, b));
      case DimensionOperation::kSUB:
        return constant(a - b);
      case DimensionOperation::kEQUAL:
        return constant(a == b ? 1 : 0);
      case DimensionOperation::kLESS:
        return constant(a < b ? 1 : 0);
      default:
        break;
    }
    if (b == 0) return failed("a size is divided by 0");
    const int64_t quotient = a / b, rest = a % b;
    const bool negative = (rest < 0) != (b < 0);
    if (op == DimensionOperation::kFLOOR_DIV) return constant(quotient - (rest != 0 && negative ? 1 : 0));
    return constant(quotient + (rest != 0 && !negative ? 1 : 0));
  }

  camshaft_plugin_shapes* shapes_;
  std::deque<IDimensionExpr> made_;
  std::string failure_;
};

class DimsExprs {
 public:
  int32_t nbDims;
  IDimensionExpr const* d[Dims::MAX_DIMS];
};

}  // namespace nvinfer1
