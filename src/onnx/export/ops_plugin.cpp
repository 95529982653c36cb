// Operators of plugins, as the model had them.
#include "ir/ops/plugin.h"
#include "ir/plugin_notes.h"
#include "onnx/export/export_operator.h"

namespace camshaft::onnx {

void export_as(ExportContext& c, const ops::Plugin& op) {
  const size_t colons = op.operator_name.rfind("::");
  const bool has_domain = colons != std::string::npos;
  const std::string domain = has_domain ? op.operator_name.substr(0, colons) : "";
  const std::string type = has_domain ? op.operator_name.substr(colons + 2) : op.operator_name;
  Attributes attributes;
  for (const std::string& text : op.attributes) {
    const PluginAttribute attribute = decode_attribute(text);
    if (attribute.name.starts_with(plugin_note_prefix)) continue;  // they are made again when the model is read
    if (const auto* integers = std::get_if<std::vector<int64_t>>(&attribute.value)) {
      attribute.single ? attributes.integer(attribute.name, integers->at(0))
                       : attributes.integers(attribute.name, *integers);
    } else if (const auto* numbers = std::get_if<std::vector<double>>(&attribute.value)) {
      attribute.single ? attributes.number(attribute.name, numbers->at(0))
                       : attributes.numbers(attribute.name, *numbers);
    } else if (const auto* texts = std::get_if<std::vector<std::string>>(&attribute.value)) {
      attribute.single ? attributes.text(attribute.name, texts->at(0)) : attributes.texts(attribute.name, *texts);
    } else {
      attributes.tensor(attribute.name, c.tensor(std::get<Tensor>(attribute.value)));
    }
  }
  c.result({type.c_str(), 1, domain.c_str()}, c.inputs(), std::move(attributes));
}

}  // namespace camshaft::onnx
