// Scan, of operator set 8 (with a batch axis) and from 9 on.
#include <fmt/format.h>

#include <algorithm>

#include "ir/ops/scan.h"
#include "onnx/converters.h"

namespace camshaft::onnx {

namespace {

std::vector<int64_t> flags(ConvertContext& c, std::string_view attribute, size_t count) {
  const auto list = c.ints_attribute(attribute).value_or(std::vector<int64_t>(count, 0));
  if (list.size() != count)
    c.invalid(fmt::format("attribute '{}' has {} entries, {} are needed", attribute, list.size(), count));
  for (const int64_t flag : list)
    if (flag != 0 && flag != 1) c.invalid(fmt::format("attribute '{}' holds {}, not 0 or 1", attribute, flag));
  return list;
}

size_t scanned_inputs(ConvertContext& c, size_t inputs) {
  const int64_t scanned = c.int_attribute("num_scan_inputs");
  if (scanned < 1 || scanned > static_cast<int64_t>(inputs))
    c.invalid(fmt::format("{} of its {} inputs cannot be scanned", scanned, inputs));
  return static_cast<size_t>(scanned);
}

Body import_body(ConvertContext& c, const std::vector<TensorType>& types, size_t states) {
  Body body = c.subgraphs().import(c.graph_attribute("body"), "body", types);
  if (body.graph.outputs.size() < std::max(states, c.output_count()))
    c.invalid(fmt::format("it has {} states and {} outputs, its body gives {} results", states, c.output_count(),
                          body.graph.outputs.size()));
  return body;
}

TensorType without_axis(ConvertContext& c, ValueId id, int64_t axis) {
  TensorType type = c.graph().type(id);
  // The axis of a sequence or map is not one that a tensor can do without.
  if (is_container(type.dtype)) c.invalid(fmt::format("{} cannot be scanned", to_string(type)));
  type.shape.erase(type.shape.begin() + axis);
  return type;
}

Values scan_9(ConvertContext& c) {
  Values inputs = c.all_inputs();
  const size_t scanned = scanned_inputs(c, inputs.size()), states = inputs.size() - scanned;
  ops::Scan scan;
  scan.states = static_cast<int64_t>(states);
  scan.input_axes = c.ints_attribute("scan_input_axes").value_or(std::vector<int64_t>(scanned, 0));
  if (scan.input_axes.size() != scanned)
    c.invalid(
        fmt::format("attribute 'scan_input_axes' has {} entries, {} are needed", scan.input_axes.size(), scanned));
  scan.input_reversed = flags(c, "scan_input_directions", scanned);
  std::vector<TensorType> types;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i < states) {
      types.push_back(c.graph().type(inputs[i]));
      continue;
    }
    int64_t& axis = scan.input_axes[i - states];
    axis = c.axis(axis, c.rank(inputs[i]));
    types.push_back(without_axis(c, inputs[i], axis));
  }
  Body body = import_body(c, types, states);
  const size_t collected = body.graph.outputs.size() - states;
  scan.output_axes = c.ints_attribute("scan_output_axes").value_or(std::vector<int64_t>(collected, 0));
  if (scan.output_axes.size() != collected)
    c.invalid(
        fmt::format("attribute 'scan_output_axes' has {} entries, {} are needed", scan.output_axes.size(), collected));
  for (size_t o = 0; o < collected; ++o) {
    const auto rank = static_cast<int64_t>(body.graph.shape(body.graph.outputs[states + o]).size());
    scan.output_axes[o] = c.axis(scan.output_axes[o], rank + 1);
  }
  scan.output_reversed = flags(c, "scan_output_directions", collected);
  inputs.insert(inputs.end(), body.captures.begin(), body.captures.end());
  std::vector<Graph> bodies;
  bodies.push_back(std::move(body.graph));
  return c.results(std::move(scan), std::move(inputs), std::move(bodies));
}

// Each entry of the batch is scanned by itself: a scan along the batch axis, whose body scans along the next one.
Values scan_8(ConvertContext& c) {
  if (c.has(0)) c.unsupported("sequence_lens (input 0) is not supported; leave it out or use operator set 9");
  Values inputs;
  for (size_t i = 1; i < c.input_count(); ++i) inputs.push_back(c.input(i));
  const size_t scanned = scanned_inputs(c, inputs.size()), states = inputs.size() - scanned;
  std::vector<TensorType> entry, types;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (c.rank(inputs[i]) < (i < states ? 1 : 2))
      c.invalid(fmt::format("input {} has {} axes; it begins with the batch{}", i + 1, c.rank(inputs[i]),
                            i < states ? "" : " and the axis that is scanned"));
    entry.push_back(without_axis(c, inputs[i], 0));
    types.push_back(entry.back());
    if (i >= states) types.back().shape.erase(types.back().shape.begin());
  }
  Body body = import_body(c, types, states);
  const size_t outputs = body.graph.outputs.size();
  ops::Scan inner;
  inner.states = static_cast<int64_t>(states);
  inner.input_axes.assign(scanned, 0);
  inner.input_reversed = flags(c, "directions", scanned);
  inner.output_axes.assign(outputs - states, 0);
  inner.output_reversed.assign(outputs - states, 0);

  Graph batch;
  batch.name = body.graph.name + "/batch";
  Values inner_inputs;
  for (size_t i = 0; i < inputs.size(); ++i)
    inner_inputs.push_back(batch.add_input(body.graph.value(body.graph.inputs[i]).name, entry[i]));
  for (const ValueId id : body.captures)
    inner_inputs.push_back(batch.add_input(c.graph().value(id).name, c.graph().type(id)));
  std::vector<std::string> names = body.graph.output_names;
  std::vector<Graph> bodies;
  bodies.push_back(std::move(body.graph));
  const Values inner_outputs = batch.add_node(inner, inner_inputs, names, {c.node().name}, std::move(bodies));
  for (size_t o = 0; o < outputs; ++o) batch.add_output(names[o], inner_outputs[o]);

  ops::Scan outer;
  outer.input_axes.assign(inputs.size(), 0);
  outer.input_reversed.assign(inputs.size(), 0);
  outer.output_axes.assign(outputs, 0);
  outer.output_reversed.assign(outputs, 0);
  inputs.insert(inputs.end(), body.captures.begin(), body.captures.end());
  std::vector<Graph> outer_bodies;
  outer_bodies.push_back(std::move(batch));
  return c.results(std::move(outer), std::move(inputs), std::move(outer_bodies));
}

constexpr Converter scan_table[] = {{"Scan", scan_8, 8}, {"Scan", scan_9, 9}};

}  // namespace

std::span<const Converter> scan_converters() {
  return scan_table;
}

}  // namespace camshaft::onnx
