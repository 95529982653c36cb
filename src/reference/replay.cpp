#include "reference/replay.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unordered_map>

#include "base/error.h"
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

  Tensor evaluate(const Provenance::Transform& transform, const Provenance& whole) {
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
