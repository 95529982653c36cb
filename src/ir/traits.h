// What passes may assume of an operator: every operator struct states it (Operator in op.h), so that a pass asks for a
// property where it would otherwise list the operators that have it.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/field.h"

namespace camshaft {

/// How elements of the results come from those of the operands.
enum class OpKind : uint8_t {
  /// Each is computed from the operands' elements at its place. Operands broadcast as NumPy's do; parameters of a
  /// quantisation may also belong to one axis.
  pointwise,
  /// Each is an element of an operand, from a place that the fields and operands of integers tell, or, where no operand
  /// has that place, a fixed value. One dtype goes in and comes out.
  move,
  /// Each is computed from all that an operand has along some axes, in whatever order they lie.
  reduction,
  /// Each is made of sums of products; what it computes is counted by a member `flops`.
  contraction,
  other,
};

/// What becomes of an operator when its operands lie in another order of axes (optimize/layout/to_channels_last.h).
enum class Layout : uint8_t {
  fixed,     ///< operands must lie as the model has them
  image,     ///< operand 0 and the result are [n, c, spatial...], or [n, spatial..., c] with the field channels_last
  follows,   ///< with its axes renamed it computes the result in that order, if operands come in it
  carries,   ///< so does this one, and what wants its result in an order wants the operands in it, too
  regroups,  ///< it merges and splits axes: an order goes through where the channels stay together
  permutes,  ///< it changes the order itself
};

/// What becomes of operands of f16 and bf16 on a machine that computes in neither
/// (optimize/precision/widen_narrow_floats.h).
enum class Widening : uint8_t {
  none,      ///< they stay as the model has them
  computes,  ///< they are read in f32
  moves,     ///< they are moved in the type in which they are at hand
};

/// The sums of products that a region may be built around (ops::RegionKind::contract).
enum class Products : uint8_t {
  none,
  floats,
  bytes,  ///< of i8 and u8, with sums of i32
};

/// `depends`: the operator's fields decide, by a member of the struct.
enum class Answer : uint8_t { no, yes, depends };

/// A number of operands, counted from the first.
constexpr size_t all_operands = SIZE_MAX;

/// A member that an initialiser cannot leave out: it has no default.
template <class T>
class Required {
 public:
  constexpr Required(T value) : value_(value) {}   // NOLINT: implicit on purpose
  constexpr operator T() const { return value_; }  // NOLINT: implicit on purpose

 private:
  T value_;
};

/// A struct may leave out none of these.
struct Traits {
  Required<OpKind> kind;
  Required<Layout> layout;
  /// So many operands share their order of axes with the result; 0 with Layout::fixed.
  Required<size_t> layout_operands;
  /// So many operands may be stored in f16 or bf16 in place of f32, with results of that type but for those that
  /// another operand becomes, as caches do (optimize/precision/lower_precision.h); a pointwise operator computes in f32
  /// between conversions all the same.
  Required<size_t> narrowed_operands;
  Required<Widening> widening;
  Required<Products> products;
  /// Whether it reads no more of an operand than it writes, as a lookup in a table does. Member: picks().
  Required<Answer> picks;
  /// Whether the elements of its result are elements of its operands, chosen so that an increasing function of all
  /// elements may be taken before or after it: what it does to numbers, it does to steps of one quantisation. Member:
  /// selects().
  Required<Answer> selects;
  /// Whether kernels read operands where they lie among the columns of wider rows (Kernel::reads_slices): all of them
  /// with `yes`, as many as the member sliced_operands(ranks) says with `depends`.
  Required<Answer> reads_slices;
  /// So many operands are read through strides that are among the fields.
  Required<size_t> strided_operands;
};

/// Nothing may be assumed: the operator gets what the model gives it.
constexpr Traits opaque_traits{
    .kind = OpKind::other,
    .layout = Layout::fixed,
    .layout_operands = 0,
    .narrowed_operands = 0,
    .widening = Widening::none,
    .products = Products::none,
    .picks = Answer::no,
    .selects = Answer::no,
    .reads_slices = Answer::no,
    .strided_operands = 0,
};

/// Whether an operator of that layout has a member permuted(order): the operator that computes transpose {order}
/// (result) from operands in that order, where there is one. `order` has one entry for each axis of operand 0; those of
/// axes that the result lacks are left out of its order.
constexpr bool has_permuted(Layout layout) {
  return layout == Layout::image || layout == Layout::follows || layout == Layout::carries;
}

/// What `flops` sees: the shapes of a node and what their symbols are.
class SizeContext {
 public:
  /// Null for omitted operands.
  SizeContext(std::vector<const Shape*> operands, std::vector<const Shape*> results, const SymbolBindings& symbols)
      : operands_(std::move(operands)), results_(std::move(results)), symbols_(symbols) {}

  /// Throws Error(invalid_model) when operand i is absent.
  const Shape& operand(size_t i) const;
  const Shape& result(size_t i) const { return *results_.at(i); }
  /// Throws Error for a symbol that has no value; so do the others.
  double size(const Dim& dim) const { return static_cast<double>(dim.evaluate(symbols_)); }
  double elements(const Shape& shape) const;
  /// Elements for each index of the first axis: of an output channel's weights.
  double elements_per_index(const Shape& shape) const;

 private:
  std::vector<const Shape*> operands_, results_;
  const SymbolBindings& symbols_;
};

namespace detail {

template <class T>
concept HasFlops = requires(const T& op, const SizeContext& sizes) {
  { op.flops(sizes) } -> std::same_as<double>;
};
template <class T>
concept HasPermuted = requires(const T& op, const std::vector<int64_t>& order) {
  { op.permuted(order) } -> std::same_as<std::optional<T>>;
};
template <class T>
concept HasPicks = requires(const T& op) {
  { op.picks() } -> std::same_as<bool>;
};
template <class T>
concept HasSelects = requires(const T& op) {
  { op.selects() } -> std::same_as<bool>;
};
template <class T>
concept HasSlicedOperands = requires(const T& op, const std::vector<size_t>& ranks) {
  { op.sliced_operands(ranks) } -> std::same_as<size_t>;
};

template <class T>
concept StatesTraits = requires {
  { T::traits } -> std::same_as<const Traits&>;
};

constexpr bool is_consistent(const Traits& traits) {
  const bool has_layout = traits.layout != Layout::fixed, sums = traits.products != Products::none;
  return has_layout == (traits.layout_operands > 0) && (!sums || traits.kind == OpKind::contraction);
}

template <class T>
constexpr bool has_promised_members() {
  constexpr Traits traits = T::traits;
  if (!is_consistent(traits)) return false;
  if (traits.kind == OpKind::contraction && !HasFlops<T>) return false;
  if (has_permuted(traits.layout) && !HasPermuted<T>) return false;
  if (traits.picks == Answer::depends && !HasPicks<T>) return false;
  if (traits.selects == Answer::depends && !HasSelects<T>) return false;
  return traits.reads_slices != Answer::depends || HasSlicedOperands<T>;
}

}  // namespace detail

/// The struct states its traits, and has the members that they promise.
template <class T>
concept HasTraits = detail::StatesTraits<T> && detail::has_promised_members<T>();

}  // namespace camshaft
