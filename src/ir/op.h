// Operators: plain value structs behind a type-erased handle.
//
// An operator struct has
//   static constexpr std::string_view name;                       // "conv"
//   static constexpr Traits traits{…};                            // what passes may assume of it
//   template <class S, class V> static void reflect(S&, V&&);     // its fields
//   bool operator==(const T&) const = default;
//   std::vector<Inferred> infer(const InferContext&) const;       // shape rule
//   std::vector<Tensor> evaluate(const EvalContext&) const;       // reference evaluation on host tensors
// and, where its traits promise them (HasTraits in traits.h),
//   double flops(const SizeContext&) const;                       // of a contraction
//   std::optional<T> permuted(const std::vector<int64_t>& order) const;
//   bool picks() const; bool selects() const; size_t sliced_operands(const std::vector<size_t>& ranks) const;
// and is listed in ops/all_operators.h. The evaluation is declared here and defined in src/reference, which this layer
// does not need: an Op has everything else, and reference/evaluate.h runs it. An operator whose inputs may be
// sequences, optionals and maps has a `static constexpr bool takes_containers`, too.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <typeindex>
#include <vector>

#include "base/cancellation.h"
#include "ir/field.h"
#include "ir/tensor.h"
#include "ir/traits.h"

namespace camshaft {

class Graph;
class ThreadPool;
struct NoiseOfBodies;
struct Value;

/// Element type and symbolic shape of a value. Of a container the shape is that of its Tensor: [length] of a sequence,
/// [] of an optional, [2] of a map. See ir/container_type.h.
struct TensorType {
  DType dtype = DType::f32;
  Shape shape;
  /// Only of what a container holds: false when even the number of axes may differ; the shape is empty then.
  bool ranked = true;
  /// What a container holds: one type for sequences and optionals, keys and values for maps. Sizes in which the
  /// elements may differ are unknown_dim(); others are numbers or made of symbols of the model's inputs. Empty for
  /// plain tensors.
  std::vector<TensorType> elements = {};
  bool operator==(const TensorType&) const = default;
};
/// "f32[batch, 3]", "seq[n]<f32[?, 3]>", "opt<f32[*]>" (any rank), "map<i64, f32>"
std::string to_string(const TensorType& type);

/// What a shape rule says of one output. `content` is set for small integer or bool tensors (rank 0 or 1) whose
/// elements are known as expressions of the dims: this is how shape arithmetic is folded.
struct Inferred {
  TensorType type;
  std::optional<std::vector<Dim>> content = std::nullopt;
};

/// What a shape rule sees.
class InferContext {
 public:
  InferContext(std::vector<const Value*> inputs, std::vector<std::string> output_names,
               const std::vector<Graph>* bodies)
      : inputs_(std::move(inputs)), output_names_(std::move(output_names)), bodies_(bodies) {}

  size_t input_count() const { return inputs_.size(); }
  size_t output_count() const { return output_names_.size(); }
  /// False for an omitted optional input and for one past the end.
  bool has(size_t i) const { return i < inputs_.size() && inputs_[i] != nullptr; }
  /// Throws Error(invalid_model) when input i is absent.
  const Value& value(size_t i) const;
  const TensorType& type(size_t i) const;
  const Shape& shape(size_t i) const { return type(i).shape; }
  DType dtype(size_t i) const { return type(i).dtype; }
  int rank(size_t i) const { return static_cast<int>(type(i).shape.size()); }
  /// The elements of input i as expressions, if known (constants of at most 4096 integers are).
  std::optional<std::vector<Dim>> content(size_t i) const;
  /// The constant tensor of input i; null when it is not one, or its bytes are elided.
  std::shared_ptr<const Tensor> constant(size_t i) const;
  /// A size that only running can tell: a symbol named after the output, the same each time the rule runs.
  Dim fresh(size_t output, size_t axis) const;
  const Graph& body(size_t i) const;
  size_t body_count() const;

 private:
  std::vector<const Value*> inputs_;
  std::vector<std::string> output_names_;
  const std::vector<Graph>* bodies_;
};

/// What a reference evaluation sees. See reference/evaluate.h.
struct EvalContext {
  const std::vector<Tensor>& inputs;            ///< undefined tensors for omitted optional inputs
  const std::vector<TensorType>& output_types;  ///< as inferred
  const SymbolBindings& bindings;
  const std::vector<Graph>& bodies;
  ThreadPool& pool;
  const Cancellation* cancellation = nullptr;  ///< looked at between iterations; null: never cancelled
  const NoiseOfBodies* noise = nullptr;        ///< moves what bodies compute; null: nothing does

  bool has(size_t i) const { return i < inputs.size() && inputs[i].defined(); }
  const Tensor& input(size_t i) const { return inputs[i]; }
  int64_t evaluate(const Dim& d) const { return d.evaluate(bindings); }
  Dims evaluate(const Shape& shape) const;
  /// The dims of output i, for outputs whose shape does not depend on data.
  Dims output_dims(size_t i) const { return evaluate(output_types[i].shape); }
};

namespace detail {

struct OpConcept {
  virtual ~OpConcept() = default;
  virtual std::string_view name() const = 0;
  virtual Fields fields() const = 0;
  virtual bool equals(const OpConcept& other) const = 0;
  virtual std::vector<Inferred> infer(const InferContext&) const = 0;
  virtual const std::type_info& type() const = 0;
  virtual bool takes_containers() const = 0;
  virtual const Traits& traits() const = 0;
  virtual double flops(const SizeContext&) const = 0;
  virtual std::shared_ptr<const OpConcept> permuted(const std::vector<int64_t>& order) const = 0;
  virtual bool picks() const = 0;
  virtual bool selects() const = 0;
  virtual size_t sliced_operands(const std::vector<size_t>& ranks) const = 0;
};

template <class T>
struct OpModel final : OpConcept {
  explicit OpModel(T v) : value(std::move(v)) {}
  std::string_view name() const override { return T::name; }
  Fields fields() const override { return to_fields(value); }
  bool equals(const OpConcept& other) const override {
    const auto* o = dynamic_cast<const OpModel*>(&other);
    return o && value == o->value;
  }
  std::vector<Inferred> infer(const InferContext& c) const override { return value.infer(c); }
  const std::type_info& type() const override { return typeid(T); }
  bool takes_containers() const override {
    return requires {
      T::takes_containers;
    };
  }
  const Traits& traits() const override { return T::traits; }
  double flops(const SizeContext& sizes) const override {
    if constexpr (T::traits.kind == OpKind::contraction)
      return value.flops(sizes);
    else
      return 0;
  }
  std::shared_ptr<const OpConcept> permuted(const std::vector<int64_t>& order) const override {
    if constexpr (has_permuted(T::traits.layout))
      if (auto op = value.permuted(order)) return std::make_shared<const OpModel>(*std::move(op));
    return nullptr;
  }
  bool picks() const override {
    if constexpr (T::traits.picks == Answer::depends)
      return value.picks();
    else
      return T::traits.picks == Answer::yes;
  }
  bool selects() const override {
    if constexpr (T::traits.selects == Answer::depends)
      return value.selects();
    else
      return T::traits.selects == Answer::yes;
  }
  size_t sliced_operands(const std::vector<size_t>& ranks) const override {
    if constexpr (T::traits.reads_slices == Answer::depends)
      return value.sliced_operands(ranks);
    else
      return T::traits.reads_slices == Answer::yes ? all_operands : 0;
  }
  T value;
};

}  // namespace detail

template <class T>
concept Operator = Reflected<T> && HasTraits<T> && requires(const T& op, const InferContext& i, const EvalContext& e) {
  { T::name } -> std::convertible_to<std::string_view>;
  { op.infer(i) } -> std::same_as<std::vector<Inferred>>;
  { op.evaluate(e) } -> std::same_as<std::vector<Tensor>>;
};

/// Any operator; an immutable value.
class Op {
 public:
  template <Operator T>
  Op(T value) : impl_(std::make_shared<const detail::OpModel<T>>(std::move(value))) {}  // NOLINT: implicit on purpose

  std::string_view name() const { return impl_->name(); }
  Fields fields() const { return impl_->fields(); }
  std::vector<Inferred> infer(const InferContext& c) const { return impl_->infer(c); }
  /// Of the operator struct.
  std::type_index type() const { return impl_->type(); }
  /// Whether its inputs may be sequences, optionals and maps: the struct has `static constexpr bool takes_containers`.
  /// The shape rules of all others never see one.
  bool takes_containers() const { return impl_->takes_containers(); }

  const Traits& traits() const { return impl_->traits(); }
  /// A multiplication and an addition count as two, by the direct algorithm; 0 for all but contractions. Throws Error
  /// for a symbol that has no value.
  double flops(const SizeContext& sizes) const { return impl_->flops(sizes); }
  /// The operator on operands in another order of axes, see has_permuted(); nullopt where there is none.
  std::optional<Op> permuted(const std::vector<int64_t>& order) const {
    auto made = impl_->permuted(order);
    return made ? std::optional<Op>(Op(std::move(made))) : std::nullopt;
  }
  /// The answers to the questions of the same names in Traits, for the fields that this operator has.
  bool picks() const { return impl_->picks(); }
  bool selects() const { return impl_->selects(); }
  /// So many operands, of these ranks, may lie among the columns of wider rows.
  size_t sliced_operands(const std::vector<size_t>& ranks) const { return impl_->sliced_operands(ranks); }

  bool operator==(const Op& other) const { return impl_ == other.impl_ || impl_->equals(*other.impl_); }

  /// The operator struct, or null if this is another operator.
  template <Operator T>
  const T* as() const {
    const auto* model = dynamic_cast<const detail::OpModel<T>*>(impl_.get());
    return model ? &model->value : nullptr;
  }

 private:
  explicit Op(std::shared_ptr<const detail::OpConcept> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<const detail::OpConcept> impl_;
};

/// `conv {strides=[2, 2]}`: the name and the fields, for dumps and keys.
std::string to_string(const Op& op);

/// Makes operators by name; the table of all of them is `operators()` in
/// ops/operators.h.
class OpRegistry {
 public:
  template <Operator T>
  void add() {
    makers_[std::string(T::name)] = [](const Fields& fields) -> Op { return from_fields<T>(T::name, fields); };
  }
  /// Throws Error(invalid_argument) for an unknown operator or bad fields.
  Op make(std::string_view name, const Fields& fields) const;
  std::vector<std::string> names() const;

 private:
  std::map<std::string, Op (*)(const Fields&), std::less<>> makers_;
};

}  // namespace camshaft
