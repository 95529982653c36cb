#include "plugin/ort/node_rule.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/foreign_call.h"
#include "base/hash.h"
#include "plugin/ort/api.h"

namespace camshaft::ort {

namespace {

// A line each, as notes separate what they say by lines.
std::string on_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string type_text(ElementType type) {
  return has_dtype(type) ? std::string(to_string(dtype_of(type, ""))) : "any type";
}

/// Empty where the table takes the operands, else why it does not.
std::string why_not(const OpTable& table, const NodeFacts& facts) {
  if (!table.is_of(facts.version)) return fmt::format("is not of version {} of the operator set", facts.version);
  const size_t parameters = table.input_count(), given = facts.inputs.size();
  const bool is_variadic = parameters > 0 && table.input_is(parameters - 1) == variadic_operand;
  if (given > parameters && !is_variadic) return fmt::format("takes {} operands, not {}", parameters, given);
  if (is_variadic) {
    const size_t least = parameters - 1 + static_cast<size_t>(std::max(0, table.least_variadic_inputs()));
    if (given < least) return fmt::format("takes {} operands at least, not {}", least, given);
  }
  ElementType of_variadic = undefined_element;
  for (size_t i = 0; i < std::max(given, parameters); ++i) {
    const size_t parameter = table.input_parameter(i);
    const bool present = i < given && facts.inputs[i].present;
    if (!present) {
      if (table.input_is(parameter) == required_operand) return fmt::format("needs operand {}", i);
      continue;
    }
    const ElementType wanted = table.input_type(parameter), got = facts.inputs[i].type;
    if (wanted != undefined_element && wanted != got)
      return fmt::format("takes {} as operand {}, not {}", type_text(wanted), i, type_text(got));
    if (is_variadic && parameter == parameters - 1 && table.inputs_are_homogeneous()) {
      if (of_variadic != undefined_element && of_variadic != got)
        return fmt::format("takes operands of one type from {} on", parameter);
      of_variadic = got;
    }
  }
  const size_t results = table.output_count();
  const bool many = results > 0 && table.output_is(results - 1) == variadic_operand;
  if (facts.outputs.size() > results && !many)
    return fmt::format("has {} outputs, not {}", results, facts.outputs.size());
  return "";
}

OperandFacts facts_of(const PluginModelNode::Operand& operand) {
  OperandFacts facts{operand.present, on_one_line(operand.name)};
  if (operand.has_type) facts.type = element_type(operand.dtype);
  facts.has_shape = operand.has_shape;
  for (size_t axis = 0; axis < operand.shape.size(); ++axis)
    facts.dims.push_back(
        axis < operand.is_open.size() && operand.is_open[axis] ? "" : on_one_line(operand.shape[axis].str()));
  if (const auto constant = operand.constant ? operand.constant() : nullptr)
    facts.constant = to_hex(hash64(constant->span()));
  return facts;
}

/// Takes over what the operator's shape inference sets. Like ONNX Runtime it does not look at the status: ONNX
/// Runtime's C++ header gives one that it has freed already. What it throws counts.
void ask_shapes(const OpTable& table, const PluginModelNode& node, NodeFacts& facts, const std::string& who) {
  ShapeContext context;
  for (const OperandFacts& input : facts.inputs) context.inputs.emplace_back(input);
  for (const PluginAttribute& attribute : node.attributes) context.attributes.push_back({attribute});
  take_complaint();
  std::string message;
  try {
    foreign_call([&] { return table.get().infer_shapes(&table.get(), &context); });
  } catch (const ForeignException& e) {
    message = e.message.empty() ? "its shape inference threw something" : e.message;
  }
  const std::string complaint = take_complaint();
  if (message.empty()) message = complaint;
  if (!message.empty())
    throw Error(ErrorCode::invalid_argument, fmt::format("{} refuses its operands: {}", who, message));
  for (const auto& [index, info] : context.outputs) {
    if (index >= facts.outputs.size()) continue;  // one that the node does not have
    OperandFacts& output = facts.outputs[index];
    if (info.type != undefined_element) output.type = info.type;
    output.has_shape = true;
    output.dims.clear();
    for (size_t axis = 0; axis < info.dims.size(); ++axis)
      output.dims.push_back(!info.symbols[axis].empty() ? on_one_line(info.symbols[axis])
                            : info.dims[axis] >= 0      ? std::to_string(info.dims[axis])
                                                        : "");
  }
}

void settle_output(const OpTable& table, const NodeFacts& facts, size_t o, OperandFacts& output,
                   const std::string& who) {
  const auto first = std::find_if(facts.inputs.begin(), facts.inputs.end(), [](const auto& i) { return i.present; });
  const ElementType own = table.output_type(table.output_parameter(o));
  if (own != undefined_element) output.type = own;
  if (output.type == undefined_element && first != facts.inputs.end()) output.type = first->type;
  if (output.type == undefined_element)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} does not say the type of output {}: declare it in the model (value_info)", who, o));
  if (dtype_of(output.type, fmt::format("output {} of {}", o, who)) == DType::string)
    throw Error(ErrorCode::unsupported, fmt::format("{} gives strings, which plugins cannot", who));
  if (output.has_shape) return;
  if (first == facts.inputs.end())
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} does not say how many axes output {} has: declare its shape in the model (value_info), "
                            "or give the operator an InferOutputShapeFn",
                            who, o));
  output.has_shape = true;
  output.dims.assign(first->dims.size(), "");
}

}  // namespace

const OpTable& table_for(const std::vector<OpTable>& tables, const NodeFacts& facts, const std::string& who) {
  std::string reasons;
  for (const OpTable& table : tables) {
    const std::string reason = why_not(table, facts);
    if (reason.empty()) return table;
    reasons += (reasons.empty() ? "it " : ", or it ") + reason;
  }
  throw Error(ErrorCode::invalid_argument, fmt::format("{} refuses its operands: {}", who, reasons));
}

NodeFacts read_node(const std::vector<OpTable>& tables, const PluginModelNode& node, const std::string& who) {
  NodeFacts facts{on_one_line(node.name), node.opset, {}, {}};
  for (const auto& input : node.inputs) facts.inputs.push_back(facts_of(input));
  for (const auto& output : node.outputs) facts.outputs.push_back(facts_of(output));
  const OpTable& table = table_for(tables, facts, who);
  if (table.infers_shapes()) ask_shapes(table, node, facts, who);
  for (size_t o = 0; o < facts.outputs.size(); ++o) settle_output(table, facts, o, facts.outputs[o], who);
  return facts;
}

}  // namespace camshaft::ort
