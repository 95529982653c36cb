#include "plugin/ort/node_facts.h"

#include <fmt/format.h>

#include <charconv>

#include "base/error.h"

namespace camshaft::ort {

namespace {

constexpr std::string_view node_note = "camshaft.node", input_note = "camshaft.inputs",
                           output_note = "camshaft.outputs";
// Between what is said of an operand: names of sizes may have blanks and commas.
constexpr char facts_separator = '\n';

std::string to_note(const OperandFacts& operand) {
  std::string text = fmt::format("{}{}{}{}{}{}{}{}{}", operand.present ? 1 : 0, facts_separator, operand.name,
                                 facts_separator, static_cast<int>(operand.type), facts_separator, operand.constant,
                                 facts_separator, operand.has_shape ? 1 : 0);
  for (const std::string& dim : operand.dims) text += facts_separator + dim;
  return text;
}

[[noreturn]] void malformed_facts() {
  throw Error(ErrorCode::invalid_argument, "what was noted of a node of a custom operator is malformed");
}

std::vector<std::string> split_facts(const std::string& text) {
  std::vector<std::string> parts{""};
  for (const char c : text) {
    if (c == facts_separator) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

OperandFacts operand_from_note(const std::string& text) {
  std::vector<std::string> parts = split_facts(text);
  int64_t type = 0;
  if (parts.size() < 5 || !is_number(parts[2], type)) malformed_facts();
  return {parts[0] == "1", parts[1], static_cast<ElementType>(type), parts[4] == "1", {parts.begin() + 5, parts.end()},
          parts[3]};
}

const std::vector<std::string>& texts_of(const std::vector<PluginAttribute>& attributes, std::string_view name) {
  for (const PluginAttribute& attribute : attributes)
    if (attribute.name == name)
      if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute.value)) return *texts;
  malformed_facts();
}

}  // namespace

bool is_number(const std::string& dim, int64_t& value) {
  const auto [end, error] = std::from_chars(dim.data(), dim.data() + dim.size(), value);
  return !dim.empty() && error == std::errc() && end == dim.data() + dim.size();
}

std::vector<PluginAttribute> to_notes(const NodeFacts& facts) {
  std::vector<std::string> inputs, outputs;
  for (const OperandFacts& input : facts.inputs) inputs.push_back(to_note(input));
  for (const OperandFacts& output : facts.outputs) outputs.push_back(to_note(output));
  return {{std::string(node_note), std::vector<std::string>{facts.name, std::to_string(facts.version)}},
          {std::string(input_note), std::move(inputs)},
          {std::string(output_note), std::move(outputs)}};
}

NodeFacts from_notes(const std::vector<PluginAttribute>& attributes) {
  NodeFacts facts;
  const std::vector<std::string>& node = texts_of(attributes, node_note);
  if (node.size() != 2 || !is_number(node[1], facts.version)) malformed_facts();
  facts.name = node[0];
  for (const std::string& text : texts_of(attributes, input_note)) facts.inputs.push_back(operand_from_note(text));
  for (const std::string& text : texts_of(attributes, output_note)) facts.outputs.push_back(operand_from_note(text));
  return facts;
}

}  // namespace camshaft::ort
