// Where a constant comes from: the model's initializers, and the operators that have made it of them.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "ir/op.h"
#include "ir/tensor.h"

namespace camshaft {

class Provenance;

/// A constant and where it comes from. Without a tensor it is an omitted operand.
struct Constant {
  std::shared_ptr<const Tensor> tensor;
  std::shared_ptr<const Provenance> provenance = {};  ///< null: it stems from no initializer
};
/// A constant that stems from no initializer: an axis, a size, a number that a pass makes itself.
Constant literal(Tensor tensor);

/// An expression over initializers; immutable, and shared by the constants that have parts in common. It names
/// initializers and does not keep their bytes alive. See reference/replay.h for its evaluation.
class Provenance {
 public:
  /// A tensor that the model names: an initializer, or the output of a Constant node. Inside functions and sub-graphs
  /// the name has the path of what it is in before it, as names of values have.
  struct Initializer {
    std::string name;
    DType dtype = DType::f32;
    Dims dims;
  };
  /// An operand of a transform that stems from no initializer, of at most most_literal_bytes.
  struct Literal {
    std::shared_ptr<const Tensor> tensor;
  };
  /// Result number `result` of `results` that the operator gives of the operands.
  struct Transform {
    Op op;
    size_t result = 0;
    size_t results = 1;
  };
  /// Any of the operands: they were equal, and one constant has taken the place of all. It can be redone as long as
  /// they are equal.
  struct Equal {};
  /// It cannot be redone; the operands are what is known to have gone into it.
  struct Unknown {
    std::string reason;  ///< what has made it: "the factor of a mask, read off the steps before it"
  };
  using Form = std::variant<Initializer, Literal, Transform, Equal, Unknown>;
  using Pointer = std::shared_ptr<const Provenance>;

  /// Of the largest literal operand: larger tables of a pass's own would be stored a second time.
  static constexpr size_t most_literal_bytes = 64 << 10;
  /// What is made in more steps than that cannot be redone: those who walk the expression recurse.
  static constexpr int most_depth = 256;

  /// Null operands are omitted ones, of transforms alone. Throws Error(internal) for operands that the form does not
  /// take, and for an expression deeper than most_depth.
  explicit Provenance(Form form, std::vector<Pointer> operands = {});

  static Pointer initializer(const std::string& name, const Tensor& tensor);
  /// Of a result of an operator on constants; null when none of them stems from an initializer.
  static Pointer transform(Op op, const std::vector<Constant>& operands, size_t result = 0, size_t results = 1);
  /// Of one constant in the place of several that are equal; null when none of them stems from an initializer.
  static Pointer equal(const std::vector<Constant>& constants);
  /// Of what is made of `from`, and of more that nobody has noted, in a way that no operator expresses.
  static Pointer unknown(std::string reason, const std::vector<Constant>& from = {});

  const Form& form() const { return form_; }
  const std::vector<Pointer>& operands() const { return operands_; }
  /// The form if it is a T, else null.
  template <class T>
  const T* as() const {
    return std::get_if<T>(&form_);
  }
  /// Steps from the initializers, which have 1.
  int depth() const { return depth_; }
  /// False when a part of the expression is Unknown.
  bool can_be_redone() const { return can_be_redone_; }

 private:
  Form form_;
  std::vector<Pointer> operands_;
  int depth_ = 1;
  bool can_be_redone_ = true;
};

/// Whether two expressions are the same, part by part.
bool same(const Provenance& a, const Provenance& b);
/// The names of the initializers in an expression.
std::set<std::string> initializer_names(const Provenance& provenance);

}  // namespace camshaft
