// Arithmetic on sizes, as nodes: every expression that a Dim can be.
#include <fmt/format.h>

#include "base/error.h"
#include "ir/dim_terms.h"
#include "onnx/export/export_writer.h"

namespace camshaft::onnx {

namespace {

/// The expression that a factor is by itself, as Dim::str() gives it.
std::string text_of(const DimFactor& factor) {
  switch (factor.function) {
    case DimFunction::symbol:
      return Dim::symbol(factor.name).str();
    case DimFunction::floor_div:
      return fmt::format("floor_div({}, {})", factor.a.str(), factor.b.str());
    case DimFunction::min:
      return fmt::format("min({}, {})", factor.a.str(), factor.b.str());
    case DimFunction::max:
      return fmt::format("max({}, {})", factor.a.str(), factor.b.str());
    case DimFunction::broadcast:
      break;
  }
  return fmt::format("broadcast({}, {})", factor.a.str(), factor.b.str());
}

}  // namespace

const std::string* ExportWriter::find_size(const std::string& key) const {
  const auto it = sizes_.find(key);
  if (it != sizes_.end()) return &it->second;
  return around_ ? around_->find_size(key) : nullptr;
}

const ExportWriter::SymbolSource* ExportWriter::find_symbol(const std::string& symbol) const {
  const auto it = symbols_.find(symbol);
  if (it != symbols_.end()) return &it->second;
  return around_ ? around_->find_symbol(symbol) : nullptr;
}

void ExportWriter::add_symbols(const std::string& name, const TensorType& type) {
  if (type.dtype == DType::optional || type.dtype == DType::map) return;
  for (size_t axis = 0; axis < type.shape.size(); ++axis) {
    const auto symbol = type.shape[axis].as_symbol();
    if (symbol && !find_symbol(*symbol)) symbols_[*symbol] = {name, axis, type.dtype == DType::sequence};
  }
}

std::string ExportWriter::symbol(const std::string& name) {
  const SymbolSource* source = find_symbol(name);
  if (!source)
    throw Error(ErrorCode::unsupported,
                fmt::format("the size '{}' is that of no input and of no value computed before: give the model fixed "
                            "shapes (--shapes)",
                            name));
  if (source->is_sequence)
    return add("Unsqueeze", {add("SequenceLength", {source->value}), constant(Tensor::from_ints({0}))});
  const auto axis = static_cast<int64_t>(source->axis);
  return add("Shape", {source->value}, Attributes().integer("start", axis).integer("end", axis + 1));
}

// ONNX's Div truncates. Its Mod has the divisor's sign, so that a - mod(a, b) divides without a rest.
std::string ExportWriter::floor_div(const Dim& a, const Dim& b) {
  const std::string x = size(a), y = size(b);
  const auto low = a.lower_bound(), divisor = b.lower_bound();
  if (low && *low >= 0 && divisor && *divisor >= 0) return add("Div", {x, y});
  return add("Div", {add("Sub", {x, add("Mod", {x, y})}), y});
}

std::string ExportWriter::size(const Dim& dim) {
  if (const auto number = dim.as_constant()) return constant(Tensor::from_ints({*number}));
  const std::string key = dim.str();
  if (const std::string* known = find_size(key)) return *known;
  const auto of_factor = [&](const DimFactor& factor) {
    switch (factor.function) {
      case DimFunction::symbol:
        return symbol(factor.name);
      case DimFunction::floor_div:
        return floor_div(factor.a, factor.b);
      case DimFunction::min:
        return add("Min", {size(factor.a), size(factor.b)});
      case DimFunction::max:
        return add("Max", {size(factor.a), size(factor.b)});
      case DimFunction::broadcast:
        break;
    }
    const std::string a = size(factor.a), b = size(factor.b);
    return add("Where", {add("Equal", {a, constant(Tensor::from_ints({1}))}), b, a});
  };
  const DimTerms all = terms_of(dim);
  std::string sum;
  for (const DimTerm& term : all.terms) {
    // A factor is an expression of its own: it is computed once for all that contain it.
    std::string product;
    for (const DimFactor& factor : term.factors) {
      const std::string text = text_of(factor);
      const std::string* known = find_size(text);
      const std::string value = known ? *known : of_factor(factor);
      if (!known) sizes_.emplace(text, value);
      product = product.empty() ? value : add("Mul", {product, value});
    }
    const bool subtracted = term.coefficient == -1 && !sum.empty();
    if (term.coefficient != 1 && !subtracted)
      product = add("Mul", {product, constant(Tensor::from_ints({term.coefficient}))});
    sum = sum.empty() ? product : add(subtracted ? "Sub" : "Add", {sum, product});
  }
  if (all.constant != 0) sum = add("Add", {sum, constant(Tensor::from_ints({all.constant}))});
  sizes_.emplace(key, sum);
  return sum;
}

std::string ExportWriter::sizes(const Shape& dims) {
  std::vector<std::string> parts;
  std::vector<int64_t> numbers;
  const auto finish_numbers = [&] {
    if (!numbers.empty()) parts.push_back(constant(Tensor::from_ints(numbers)));
    numbers.clear();
  };
  for (const Dim& dim : dims) {
    if (const auto number = dim.as_constant()) {
      numbers.push_back(*number);
      continue;
    }
    finish_numbers();
    parts.push_back(size(dim));
  }
  if (parts.empty()) return constant(Tensor::from_ints(numbers));
  finish_numbers();
  if (parts.size() == 1) return parts[0];
  return add("Concat", std::move(parts), Attributes().integer("axis", 0));
}

}  // namespace camshaft::onnx
