// Nodes of plugins' operators.
#include <fmt/format.h>

#include "ir/ops/axis_order.h"
#include "ir/ops/move.h"
#include "ir/ops/plugin.h"
#include "ir/ops/pointwise.h"
#include "ir/plugin_notes.h"
#include "onnx/claimed_operators.h"
#include "onnx/onnx_dtype.h"
#include "onnx/operator_schema.h"
#include "onnx/quote.h"
#include "onnx/to_tensor.h"

namespace camshaft::onnx {

namespace {

PluginAttribute read_plugin_attribute(ConvertContext& c, const AttributeProto& attribute) {
  PluginAttribute result{attribute.name, std::vector<int64_t>()};
  switch (attribute.type) {
    case AttributeType::int_:
      result.value = std::vector<int64_t>{attribute.i};
      result.single = true;
      break;
    case AttributeType::ints:
      result.value = attribute.ints;
      break;
    case AttributeType::float_:
      result.value = std::vector<double>{static_cast<double>(attribute.f)};
      result.single = true;
      break;
    case AttributeType::floats:
      result.value = std::vector<double>(attribute.floats.begin(), attribute.floats.end());
      break;
    case AttributeType::string:
      result.value = std::vector<std::string>{attribute.s};
      result.single = true;
      break;
    case AttributeType::strings:
      result.value = attribute.strings;
      break;
    case AttributeType::tensor: {
      Tensor tensor =
          to_tensor(c.tensors().read(attribute.tensors.at(0), fmt::format("attribute '{}'", attribute.name)));
      if (holds_objects(tensor.dtype())) c.unsupported("plugins take no tensors of strings as attributes");
      result.value = std::move(tensor);
      break;
    }
    default:
      c.unsupported(fmt::format("its attribute {} is {}, which plugins cannot take", quote(attribute.name),
                                attribute_type_name(attribute.type)));
  }
  return result;
}

bool plugin_takes(const PluginOperator& plugin, size_t operand, DType dtype) {
  if (plugin.types.empty()) return true;
  const uint64_t bits = plugin.types[std::min(operand, plugin.types.size() - 1)];
  return (bits >> static_cast<unsigned>(dtype) & 1) != 0;
}

std::string taken_types(const PluginOperator& plugin, size_t operand) {
  std::string list;
  for (int d = 0; d < dtype_count; ++d) {
    const auto dtype = static_cast<DType>(d);
    if (!holds_objects(dtype) && plugin_takes(plugin, operand, dtype))
      list += (list.empty() ? "" : ", ") + std::string(to_string(dtype));
  }
  return list.empty() ? "nothing" : list;
}

// Whether an operand or result of this rank has its channels last in the plugin.
bool is_channels_last(const std::vector<PluginLayout>& layouts, size_t i, size_t rank) {
  return !layouts.empty() && rank >= 3 && layouts[std::min(i, layouts.size() - 1)] == PluginLayout::channels_last;
}

PluginModelNode::Operand declared_output(ConvertContext& c, const PluginOperator& plugin, size_t o) {
  PluginModelNode::Operand output{c.uses_output(o), c.node().outputs[o]};
  const TypeProto* declared = c.declared_type(o);
  if (!declared || declared->kind != TypeProto::Kind::tensor) return output;
  if (declared->elem_type != 0) {
    output.has_type = true;
    output.dtype = dtype_from_onnx(declared->elem_type, fmt::format("output {}", quote(output.name)));
  }
  if (!declared->shape) return output;
  output.has_shape = true;
  for (const DimensionProto& d : *declared->shape) {
    const bool is_named = !d.value && !d.param.empty();
    output.shape.push_back(d.value ? Dim(*d.value) : is_named ? Dim::symbol(d.param) : Dim(0));
    output.is_open.push_back(!d.value && !is_named);
  }
  if (is_channels_last(plugin.output_layouts, o, output.shape.size())) {
    const ops::AxisOrder order = ops::channels_last_order(output.shape.size());
    output.shape = ops::reordered(output.shape, order);
    output.is_open = ops::reordered(output.is_open, order);
  }
  return output;
}

/// What the plugin notes of the node, added to its attributes.
void add_notes(ConvertContext& c, const PluginOperator& plugin, const PluginNoteTaker& taker, const Values& inputs,
               std::vector<PluginAttribute>& attributes) {
  PluginModelNode node{c.node().name, c.opset(), attributes, {}, {}};
  for (size_t i = 0; i < inputs.size(); ++i) {
    PluginModelNode::Operand input{inputs[i] != no_value, i < c.node().inputs.size() ? c.node().inputs[i] : ""};
    if (input.present) {
      input.has_type = input.has_shape = true;
      input.dtype = c.dtype(inputs[i]);
      input.shape = c.shape(inputs[i]);
      input.constant = [&c, id = inputs[i]] { return c.constant(id); };
    }
    node.inputs.push_back(std::move(input));
  }
  for (size_t o = 0; o < c.output_count(); ++o) node.outputs.push_back(declared_output(c, plugin, o));
  std::vector<PluginAttribute> notes = taker.notes(node);
  for (PluginAttribute& note : notes) attributes.push_back(std::move(note));
}

}  // namespace

Values convert_plugin(ConvertContext& c, const PluginOperator& plugin) {
  std::vector<PluginAttribute> attributes;
  for (const AttributeProto& attribute : c.node().attributes) attributes.push_back(read_plugin_attribute(c, attribute));
  Values inputs;
  std::optional<DType> narrow;  // of operands that the plugin gets as f32
  for (size_t i = 0; i < c.input_count(); ++i) {
    ValueId id = c.input_or_none(i);
    if (id != no_value) {
      const DType dtype = c.dtype(id);
      if (holds_objects(dtype)) c.unsupported(fmt::format("plugins take no operands of {}", to_string(dtype)));
      if (!plugin_takes(plugin, i, dtype)) {
        if ((dtype != DType::f16 && dtype != DType::bf16) || !plugin_takes(plugin, i, DType::f32))
          c.invalid(fmt::format("the operator {} of {} does not take {} as operand {}, but {}", plugin.full_name(),
                                plugin.file, to_string(dtype), i, taken_types(plugin, i)));
        narrow = dtype;
        id = c.cast(id, DType::f32);
      }
      const size_t rank = c.shape(id).size();
      if (is_channels_last(plugin.input_layouts, i, rank))
        id = c.add(ops::Transpose{ops::channels_last_order(rank)}, {id});
    }
    inputs.push_back(id);
  }
  if (const auto* taker = dynamic_cast<const PluginNoteTaker*>(&plugin))
    add_notes(c, plugin, *taker, inputs, attributes);
  const ops::Plugin op = ops::make_plugin(plugin, attributes);
  if (c.output_count() == 0) c.invalid("it has no outputs");
  if (!narrow && plugin.output_layouts.empty()) return c.results(op, std::move(inputs), {});
  Values outputs = c.add_all(op, std::move(inputs), c.output_count());
  for (size_t o = 0; o < outputs.size(); ++o) {
    const size_t rank = c.shape(outputs[o]).size();
    const bool narrows = narrow && c.dtype(outputs[o]) == DType::f32;
    if (is_channels_last(plugin.output_layouts, o, rank))
      outputs[o] = c.result_at(o, ops::Transpose{ops::inverse(ops::channels_last_order(rank))},
                               {narrows ? c.cast(outputs[o], *narrow) : outputs[o]});
    else if (narrows)
      outputs[o] = c.result_at(o, ops::Cast{*narrow}, {outputs[o]});
  }
  return outputs;
}

}  // namespace camshaft::onnx
