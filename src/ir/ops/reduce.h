// Reductions along axes.
#pragma once

#include "ir/graph.h"

namespace camshaft::ops {

enum class ReduceKind : uint8_t { sum, mean, max, min, prod, sum_squares, sum_abs };

/// Reduces `axes` (sorted, not negative; empty means none, but squares and absolute values are still taken). Reductions
/// of nothing give the identity element (max: the lowest value). Integers wrap; their mean truncates. NaN stays.
struct Reduce {
  static constexpr std::string_view name = "reduce";
  static constexpr Traits traits{.kind = OpKind::reduction,
                                 .layout = Layout::follows,
                                 .layout_operands = 1,
                                 .narrowed_operands = all_operands,
                                 .widening = Widening::computes,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::depends,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  ReduceKind kind = ReduceKind::sum;
  std::vector<int64_t> axes;
  bool keep_dims = true;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("kind", self.kind);
    visit("axes", self.axes);
    visit("keep_dims", self.keep_dims);
  }
  bool operator==(const Reduce&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  std::optional<Reduce> permuted(const std::vector<int64_t>& order) const;
  bool selects() const { return kind == ReduceKind::max || kind == ReduceKind::min; }
};

/// Index (i64) of the largest or smallest element along an axis; ties go to the first, or to the last if `select_last`.
struct ArgReduce {
  static constexpr std::string_view name = "arg_reduce";
  static constexpr Traits traits{.kind = OpKind::other,
                                 .layout = Layout::follows,
                                 .layout_operands = 1,
                                 .narrowed_operands = 0,
                                 .widening = Widening::computes,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  bool largest = true;
  int64_t axis = 0;
  bool keep_dims = true;
  bool select_last = false;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("largest", self.largest);
    visit("axis", self.axis);
    visit("keep_dims", self.keep_dims);
    visit("select_last", self.select_last);
  }
  bool operator==(const ArgReduce&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  std::optional<ArgReduce> permuted(const std::vector<int64_t>& order) const;
};

/// Softmax, or its logarithm, along one axis.
struct Softmax {
  static constexpr std::string_view name = "softmax";
  static constexpr Traits traits{.kind = OpKind::other,
                                 .layout = Layout::follows,
                                 .layout_operands = 1,
                                 .narrowed_operands = all_operands,
                                 .widening = Widening::computes,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  int64_t axis = -1;  ///< not negative in a graph
  bool log = false;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("axis", self.axis);
    visit("log", self.log);
  }
  bool operator==(const Softmax&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  std::optional<Softmax> permuted(const std::vector<int64_t>& order) const;
};

/// (x - mean) / sqrt(variance + epsilon) · scale + bias over the axes from `axis` to the last; scale and bias (optional
/// inputs 1 and 2) have the shape of those axes. `root_mean_square` leaves out the mean;
/// with it, `clamped` takes the larger of the mean square and epsilon instead of their sum. Statistics in f32 or wider.
struct LayerNorm {
  static constexpr std::string_view name = "layer_norm";
  static constexpr Traits traits{.kind = OpKind::other,
                                 .layout = Layout::fixed,
                                 .layout_operands = 0,
                                 .narrowed_operands = all_operands,
                                 .widening = Widening::computes,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  int64_t axis = -1;  ///< not negative in a graph
  double epsilon = 1e-5;
  bool root_mean_square = false;
  bool clamped = false;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("axis", self.axis);
    visit("epsilon", self.epsilon);
    visit("root_mean_square", self.root_mean_square);
    visit("clamped", self.clamped);
  }
  bool operator==(const LayerNorm&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// Instance (groups == channels) and group normalisation of [n, c, spatial...] (or [n, spatial..., c]) with scale[c]
/// and bias[c] (optional inputs 1 and 2).
struct GroupNorm {
  static constexpr std::string_view name = "group_norm";
  static constexpr Traits traits{.kind = OpKind::other,
                                 .layout = Layout::image,
                                 .layout_operands = 1,
                                 .narrowed_operands = all_operands,
                                 .widening = Widening::computes,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::no,
                                 .reads_slices = Answer::no,
                                 .strided_operands = 0};
  int64_t groups = 1;
  double epsilon = 1e-5;
  bool channels_last = false;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("groups", self.groups);
    visit("epsilon", self.epsilon);
    visit("channels_last", self.channels_last);
  }
  bool operator==(const GroupNorm&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  std::optional<GroupNorm> permuted(const std::vector<int64_t>& order) const;
};

enum class PoolKind : uint8_t { max, average };

/// Max or average pooling over the spatial axes of [n, c, spatial...] (or [n, spatial..., c]). `pads` as in Conv.
/// Average divides by the kernel size when count_include_pad, else by the elements inside. Global pooling is Reduce.
struct Pool {
  static constexpr std::string_view name = "pool";
  static constexpr Traits traits{.kind = OpKind::other,
                                 .layout = Layout::image,
                                 .layout_operands = 1,
                                 .narrowed_operands = all_operands,
                                 .widening = Widening::computes,
                                 .products = Products::none,
                                 .picks = Answer::no,
                                 .selects = Answer::depends,
                                 .reads_slices = Answer::depends,
                                 .strided_operands = 0};
  PoolKind kind = PoolKind::max;
  std::vector<int64_t> kernel;
  std::vector<int64_t> strides;
  Shape pads;
  std::vector<int64_t> dilations;
  bool ceil_mode = false;
  bool count_include_pad = false;
  bool channels_last = false;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("kind", self.kind);
    visit("kernel", self.kernel);
    visit("strides", self.strides);
    visit("pads", self.pads);
    visit("dilations", self.dilations);
    visit("ceil_mode", self.ceil_mode);
    visit("count_include_pad", self.count_include_pad);
    visit("channels_last", self.channels_last);
  }
  bool operator==(const Pool&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
  std::optional<Pool> permuted(const std::vector<int64_t>& order) const;
  bool selects() const;
  size_t sliced_operands(const std::vector<size_t>& /*ranks*/) const { return channels_last ? 1 : 0; }
};

}  // namespace camshaft::ops

namespace camshaft {
template <>
struct EnumNames<ops::ReduceKind> {
  static constexpr std::string_view values[] = {"sum", "mean", "max", "min", "prod", "sum_squares", "sum_abs"};
};
template <>
struct EnumNames<ops::PoolKind> {
  static constexpr std::string_view values[] = {"max", "average"};
};
}  // namespace camshaft
