#include "onnx/size_fractions.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/error.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/replaceable.h"

namespace camshaft::onnx {

namespace {

using F = ScalarFunction;

constexpr int most_fraction_depth = 32;
constexpr size_t most_sizes = 16;                 // of a list of sizes
constexpr int64_t max_number = int64_t{1} << 20;  // of numerators and denominators

// numerator / denominator
struct Fraction {
  Dim numerator;
  int64_t denominator = 1;
};
using Fractions = std::optional<std::vector<Fraction>>;

bool is_number(const Fraction& f) {
  return f.numerator.is_constant();
}

bool is_small(int64_t n) {
  return n != 0 && n <= max_number && n >= -max_number;
}

Fraction normal(Dim numerator, int64_t denominator) {
  if (denominator < 0) return {Dim(-1) * numerator, -denominator};
  return {std::move(numerator), denominator};
}

// A number with few binary places.
std::optional<Fraction> of_number(double value) {
  for (int64_t denominator = 1; denominator <= 4096; denominator *= 2) {
    const double numerator = value * static_cast<double>(denominator);
    if (numerator == std::floor(numerator) && std::abs(numerator) <= static_cast<double>(max_number))
      return Fraction{static_cast<int64_t>(numerator), denominator};
  }
  return std::nullopt;
}

bool is_power_of_two(int64_t n) {
  return n > 0 && (n & (n - 1)) == 0;
}

// A quotient that is no exact float is only right where the next step rounds it, as the caller must know: a product of
// two such, or a sum, may be off by more.
bool is_exact(const Fraction& f) {
  return is_power_of_two(f.denominator);
}

std::optional<Fraction> combined(F function, const Fraction& a, const Fraction& b) {
  if (!is_exact(a) || !is_exact(b)) return std::nullopt;
  switch (function) {
    case F::mul:
      if (!is_number(a) && !is_number(b)) return std::nullopt;
      return Fraction{a.numerator * b.numerator, a.denominator * b.denominator};
    case F::div: {
      if (!is_number(b) || !is_small(b.numerator.value())) return std::nullopt;
      return normal(a.numerator * Dim(b.denominator), a.denominator * b.numerator.value());
    }
    case F::add:
    case F::sub: {
      const Dim left = a.numerator * Dim(b.denominator), right = b.numerator * Dim(a.denominator);
      return Fraction{function == F::add ? left + right : left - right, a.denominator * b.denominator};
    }
    default:
      return std::nullopt;
  }
}

class FractionFinder {
 public:
  FractionFinder(const Graph& graph, ConstantFinder& constants) : graph_(graph), constants_(constants) {}

  /// Each value once: one that is added to itself over and over has as many ways to it as there are powers of 2.
  Fractions find(ValueId id, int depth) {
    if (const auto it = found_.find(id); it != found_.end()) return it->second;
    return found_[id] = searched(id, depth);
  }

 private:
  Fractions searched(ValueId id, int depth) {
    const Value& value = graph_.value(id);
    if (value.type.shape.size() > 1 || depth > most_fraction_depth) return std::nullopt;
    if (const auto constant = value.constant) {
      fix_numbers(value.provenance, "a factor of sizes");
      return of_constant(*constant);
    }
    const Node* node = constants_.producer(id);
    if (!node || !node->bodies.empty()) return std::nullopt;
    if (node->op.as<ops::Cast>()) return cast(*node, depth);
    if (const auto* pointwise = node->op.as<ops::Pointwise>()) return computed(pointwise->function, *node, depth);
    if (node->op.as<ops::Concat>()) return joined(*node, depth);
    if (const auto* reshape = node->op.as<ops::Reshape>(); reshape && node->inputs.size() == 1)
      return find(node->inputs[0], depth + 1);
    return std::nullopt;
  }

  static Fractions of_constant(const Tensor& tensor) {
    if (!is_floating(tensor.dtype()) || tensor.size() > static_cast<int64_t>(most_sizes)) return std::nullopt;
    std::vector<Fraction> out;
    for (const double value : tensor.to_doubles()) {
      const auto number = of_number(value);
      if (!number) return std::nullopt;
      out.push_back(*number);
    }
    return out;
  }

  Fractions cast(const Node& node, int depth) {
    const DType from = graph_.type(node.inputs[0]).dtype, to = graph_.type(node.outputs[0]).dtype;
    if (to != DType::f32 && to != DType::f64) return std::nullopt;
    if (from == DType::f32 || from == DType::f64) return find(node.inputs[0], depth + 1);
    const auto sizes = constants_.elements(node.inputs[0]);
    if (!sizes || sizes->size() > most_sizes) return std::nullopt;
    std::vector<Fraction> out;
    for (const Dim& size : *sizes) out.push_back({size, 1});
    return out;
  }

  Fractions computed(F function, const Node& node, int depth) {
    const Fractions a = find(node.inputs[0], depth + 1);
    if (!a) return std::nullopt;
    std::vector<Fraction> out;
    if (function == F::floor || function == F::ceil) {
      for (const Fraction& f : *a)
        out.push_back(
            {function == F::floor ? floor_div(f.numerator, f.denominator) : ceil_div(f.numerator, f.denominator)});
      return out;
    }
    if (node.inputs.size() != 2) return std::nullopt;
    const Fractions b = find(node.inputs[1], depth + 1);
    if (!b) return std::nullopt;
    const size_t count = std::max(a->size(), b->size());
    if ((a->size() != count && a->size() != 1) || (b->size() != count && b->size() != 1)) return std::nullopt;
    for (size_t i = 0; i < count; ++i) {
      const auto both = combined(function, (*a)[a->size() == 1 ? 0 : i], (*b)[b->size() == 1 ? 0 : i]);
      if (!both || both->denominator > max_number) return std::nullopt;
      out.push_back(*both);
    }
    return out;
  }

  Fractions joined(const Node& node, int depth) {
    std::vector<Fraction> out;
    for (const ValueId input : node.inputs) {
      const Fractions part = find(input, depth + 1);
      if (!part || out.size() + part->size() > most_sizes) return std::nullopt;
      out.insert(out.end(), part->begin(), part->end());
    }
    return out;
  }

  const Graph& graph_;
  ConstantFinder& constants_;
  std::unordered_map<ValueId, Fractions> found_;
};

}  // namespace

std::optional<std::vector<Dim>> cut_to_sizes(const Graph& graph, ConstantFinder& constants, ValueId id) {
  try {
    const auto fractions = FractionFinder(graph, constants).find(id, 0);
    if (!fractions) return std::nullopt;
    std::vector<Dim> out;
    for (const Fraction& f : *fractions) {
      const auto low = f.numerator.lower_bound();
      if (!low || *low < 0) return std::nullopt;  // negative numbers are cut upwards
      out.push_back(floor_div(f.numerator, f.denominator));
    }
    return out;
  } catch (const Error&) {  // beyond 64 bits, where floats go on
    return std::nullopt;
  }
}

}  // namespace camshaft::onnx
