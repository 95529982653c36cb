#include "onnx/operator_schema.h"

#include <algorithm>

#include "onnx/converters.h"

namespace camshaft::onnx {

namespace {

struct Line {
  std::string_view domain, op_type;
  int64_t since;
  std::string_view inputs, outputs, attributes;
};

constexpr Line lines[] = {
#include "onnx/operator_schemas.inc"
};

/// visit(word) for each of a list with blanks between.
template <class Visit>
void for_each_word(std::string_view list, const Visit& visit) {
  while (!list.empty()) {
    const size_t end = std::min(list.find(' '), list.size());
    visit(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
}

/// "X:T", "B:T?", "inputs:V*"
std::vector<OperatorParameter> parameters_of(std::string_view list) {
  std::vector<OperatorParameter> parameters;
  for_each_word(list, [&](std::string_view word) {
    using Count = OperatorParameter::Count;
    const Count count = word.back() == '?' ? Count::optional : word.back() == '*' ? Count::any : Count::one;
    if (count != Count::one) word.remove_suffix(1);
    const size_t colon = word.find(':');
    parameters.push_back({std::string(word.substr(0, colon)), std::string(word.substr(colon + 1)), count});
  });
  return parameters;
}

/// "group:2", "body:5!": the number of the type, and whether the attribute must be given.
std::vector<OperatorAttribute> attributes_of(std::string_view list) {
  std::vector<OperatorAttribute> attributes;
  for_each_word(list, [&](std::string_view word) {
    const bool is_required = word.back() == '!';
    if (is_required) word.remove_suffix(1);
    const size_t colon = word.find(':');
    int type = 0;
    for (const char digit : word.substr(colon + 1)) type = 10 * type + (digit - '0');
    attributes.push_back({std::string(word.substr(0, colon)), static_cast<AttributeType>(type), is_required});
  });
  return attributes;
}

}  // namespace

std::string_view attribute_type_name(AttributeType type) {
  static constexpr std::string_view names[] = {"nothing", "a float",         "an integer",     "a string", "a tensor",
                                               "a graph", "floats",          "integers",       "strings",  "tensors",
                                               "graphs",  "a sparse tensor", "sparse tensors", "a type",   "types"};
  return names[static_cast<size_t>(type)];
}

std::optional<OperatorSchema> find_schema(std::string_view domain, std::string_view op_type, int64_t opset) {
  if (domain == "ai.onnx") domain = "";
  // As find_converter() does.
  if ((domain.empty() && op_type.ends_with("_TRT")) || domain == "trt.plugins") domain = "TRT";
  const Line* best = nullptr;
  for (const Line& line : lines)  // of versions of an operator, the later stand behind the earlier
    if (line.domain == domain && line.op_type == op_type && line.since <= opset) best = &line;
  if (best == nullptr) return std::nullopt;
  return OperatorSchema{std::string(domain),         std::string(op_type),         best->since,
                        parameters_of(best->inputs), parameters_of(best->outputs), attributes_of(best->attributes)};
}

int64_t newest_version(std::string_view domain) {
  if (domain.empty() || domain == "ai.onnx") return newest_opset;
  int64_t newest = 1;
  for (const Line& line : lines)
    if (line.domain == domain) newest = std::max(newest, line.since);
  return newest;
}

}  // namespace camshaft::onnx
