#include "reference/replay.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "reference/derived_constant.h"

namespace camshaft {

namespace {

class Replay {
 public:
  Replay(const FindInitializer& find, ThreadPool& pool) : find_(find), pool_(pool) {}

  // Recurses as deep as the expression is, which is bounded; each part is computed once.
  const Tensor& evaluate(const Provenance& part) {
    if (const auto it = made_.find(&part); it != made_.end()) return it->second;
    Tensor made = std::visit([&](const auto& form) { return evaluate(form, part); }, part.form());
    return made_.emplace(&part, std::move(made)).first->second;
  }

 private:
  Tensor evaluate(const Provenance::Initializer& initializer, const Provenance&) {
    Tensor tensor = find_(initializer.name);
    const auto fail = [&](const std::string& what) {
      throw Error(ErrorCode::invalid_argument, fmt::format("the initializer '{}' is {}", initializer.name, what));
    };
    if (!tensor.defined()) fail("missing");
    if (tensor.dtype() != initializer.dtype || tensor.dims() != initializer.dims)
      fail(fmt::format("{}{}, {}{} is needed", to_string(tensor.dtype()), to_string(tensor.dims()),
                       to_string(initializer.dtype), to_string(initializer.dims)));
    return tensor;
  }

  static Tensor evaluate(const Provenance::Literal& literal, const Provenance&) { return *literal.tensor; }

  // What derive_product() has recorded, x · f · g … in f64 and rounded once, is computed as it does that, in one pass:
  // 25 million weights take 20 ms of two cores so, and 0.6 s step by step. Undefined for anything else.
  Tensor product(const Provenance::Transform& transform, const Provenance& whole) {
    const auto* const rounding = transform.op.as<ops::Cast>();
    if (!rounding || rounding->to == DType::f64 || !(transform.op == Op(ops::Cast{.to = rounding->to}))) return {};
    const auto takes = [](const Provenance& part, size_t operands) {
      const auto& all = part.operands();
      return all.size() == operands && std::all_of(all.begin(), all.end(), [](const auto& p) { return p != nullptr; });
    };
    if (!takes(whole, 1)) return {};
    std::vector<Provenance::Pointer> factors;
    const Provenance* part = whole.operands()[0].get();
    for (const auto* t = part->as<Provenance::Transform>(); t; t = part->as<Provenance::Transform>()) {
      const auto* const pointwise = t->op.as<ops::Pointwise>();
      if (!pointwise || pointwise->function != ScalarFunction::mul || !takes(*part, 2)) break;
      factors.insert(factors.begin(), part->operands()[1]);
      part = part->operands()[0].get();
    }
    const auto* const widening = part->as<Provenance::Transform>();
    if (factors.empty() || !widening || !(widening->op == Op(ops::Cast{.to = DType::f64})) || !takes(*part, 1))
      return {};
    const Tensor x = evaluate(*part->operands()[0]);
    if (x.dtype() != rounding->to || !is_floating(x.dtype())) return {};
    std::vector<Constant> numbers;
    for (const Provenance::Pointer& factor : factors) {
      numbers.push_back(literal(evaluate(*factor)));
      if (numbers.back().tensor->dtype() != DType::f64 || !broadcasts_to(numbers.back().tensor->dims(), x.dims()))
        return {};
    }
    return *derive_product(literal(x), numbers, pool_).constant.tensor;
  }

  static bool broadcasts_to(const Dims& from, const Dims& to) {
    if (from.size() > to.size()) return false;
    const size_t lead = to.size() - from.size();
    for (size_t d = 0; d < from.size(); ++d)
      if (from[d] != 1 && from[d] != to[lead + d]) return false;
    return true;
  }

  Tensor evaluate(const Provenance::Transform& transform, const Provenance& whole) {
    if (Tensor made = product(transform, whole); made.defined()) return made;
    std::vector<Tensor> operands;
    for (const Provenance::Pointer& operand : whole.operands())
      operands.push_back(operand ? evaluate(*operand) : Tensor());
    return evaluate_on_constants(transform.op, operands, transform.results, pool_).at(transform.result);
  }

  Tensor evaluate(const Provenance::Equal&, const Provenance& whole) {
    const Tensor first = evaluate(*whole.operands()[0]);
    for (const Provenance::Pointer& other : whole.operands())
      if (!(evaluate(*other) == first))
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("one constant stands for several that were equal and are not any more; they are made "
                                "of the initializers {}",
                                fmt::join(initializer_names(whole), ", ")));
    return first;
  }

  static Tensor evaluate(const Provenance::Unknown& unknown, const Provenance&) {
    throw Error(ErrorCode::unsupported, fmt::format("a constant cannot be redone: it is {}", unknown.reason));
  }

  const FindInitializer& find_;
  ThreadPool& pool_;
  std::unordered_map<const Provenance*, Tensor> made_;
};

}  // namespace

Tensor replay(const Provenance& provenance, const FindInitializer& find, ThreadPool& pool) {
  return Replay(find, pool).evaluate(provenance);
}

}  // namespace camshaft
