// If and Loop.
#include <fmt/format.h>

#include "ir/container_type.h"
#include "ir/ops/control_flow.h"
#include "ir/ops/optional.h"
#include "onnx/branch_cases.h"
#include "onnx/converters.h"
#include "onnx/subgraphs.h"

namespace camshaft::onnx {

namespace {

void check_outputs(ConvertContext& c, size_t outputs, size_t others = 0) {
  if (outputs < others + c.output_count())
    c.invalid(fmt::format("it has {} outputs, its sub-graph {}", c.output_count(), outputs));
}

// Exporters write many branches on conditions that are known: those become part of the graph around.
Values if_(ConvertContext& c) {
  const GraphProto& then_graph = c.graph_attribute("then_branch");
  const GraphProto& else_graph = c.graph_attribute("else_branch");
  const ValueId condition = c.input(0);
  if (const auto known = c.constant(condition)) {
    if (known->dtype() != DType::boolean || known->size() != 1) c.invalid("the condition must be one bool");
    const Values outputs = c.subgraphs().inlined(known->as<uint8_t>()[0] != 0 ? then_graph : else_graph, {});
    check_outputs(c, outputs.size());
    return outputs;
  }
  Body yes = c.subgraphs().import(then_graph, "then", {});
  Body no = c.subgraphs().import(else_graph, "else", {});
  check_outputs(c, yes.graph.outputs.size());
  check_outputs(c, no.graph.outputs.size());
  for (size_t o = 0; o < c.output_count(); ++o) {
    const TensorType& a = yes.graph.type(yes.graph.outputs[o]);
    const TensorType& b = no.graph.type(no.graph.outputs.at(o));
    if (a.dtype == b.dtype && a.shape.size() != b.shape.size())
      throw RanksDiffer{
          fmt::format("result {} is {} in one branch and {} in the other", o, to_string(a), to_string(b))};
  }
  Branches branches = join_branches(condition, std::move(yes), std::move(no), c.graph());
  return c.results(ops::If{}, std::move(branches.inputs), std::move(branches.bodies));
}

// Sizes of carried values that an iteration changes become symbols; true when there were any that were not yet.
bool widen(ConvertContext& c, const GraphProto& graph, const Body& body, bool all, std::vector<TensorType>& inputs) {
  bool widened = false;
  for (size_t i = 2; i < inputs.size(); ++i) {
    const TensorType& given = body.graph.type(body.graph.outputs[i - 1]);
    if (given.dtype != inputs[i].dtype || given.shape.size() != inputs[i].shape.size())
      c.fail(given.dtype != inputs[i].dtype ? ErrorCode::invalid_model : ErrorCode::unsupported,
             fmt::format("carried value {} begins as {} and becomes {}; only its sizes may change", i - 2,
                         to_string(inputs[i]), to_string(given)));
    // A loop that begins with an empty sequence says what is in it when it inserts the first element.
    if (given.dtype == DType::sequence && inputs[i].shape[0] == Dim(0) &&
        given.elements[0].dtype == inputs[i].elements[0].dtype)
      inputs[i].elements = given.elements;
    for (size_t axis = 0; axis < given.shape.size(); ++axis) {
      const Dim symbol = c.subgraphs().fresh(graph, "body", i, axis);
      if (inputs[i].shape[axis] == symbol || (inputs[i].shape[axis] == given.shape[axis] && !all)) continue;
      inputs[i].shape[axis] = symbol;
      widened = true;
    }
    for (size_t e = 0; e < given.elements.size(); ++e) {
      if (accepts_element(inputs[i].elements[e], given.elements[e])) continue;
      inputs[i].elements[e] = join_elements(inputs[i].elements[e], given.elements[e]);
      widened = true;
    }
  }
  return widened;
}

/// A loop may begin with an optional and go on with what such an optional holds: the body then gives optionals.
Body import_loop_body(ConvertContext& c, const GraphProto& graph, const std::vector<TensorType>& types) {
  Body body = c.subgraphs().import(graph, "body", types);
  for (size_t i = 2; i < types.size() && i - 1 < body.graph.outputs.size(); ++i) {
    ValueId& output = body.graph.outputs[i - 1];
    if (types[i].dtype != DType::optional || body.graph.type(output).dtype != types[i].elements[0].dtype) continue;
    output = body.graph.add(ops::MakeOptional{}, {output}, body.graph.value(output).name + ".optional");
  }
  return body;
}

/// What a loop carried as an optional, as the model declares its result.
void unwrap_optionals(ConvertContext& c, size_t carried, Values& outputs) {
  for (size_t i = 0; i < carried && i < outputs.size(); ++i) {
    const TypeProto* declared = c.declared_type(i);
    if (c.dtype(outputs[i]) == DType::optional && declared && declared->kind != TypeProto::Kind::optional)
      outputs[i] = c.add(ops::OptionalGetElement{c.declared_rank(i)}, {outputs[i]});
  }
}

/// A body may take its iteration and condition as tensors of one element, as ONNX Runtime lets it.
Shape declared_single(const GraphProto& graph, size_t input) {
  const bool is_list =
      input < graph.inputs.size() && graph.inputs[input].type.shape && graph.inputs[input].type.shape->size() == 1;
  return is_list ? Shape{1} : Shape();
}

Values loop(ConvertContext& c) {
  const GraphProto& graph = c.graph_attribute("body");
  if (c.input_count() < 2) c.invalid("it needs a trip count and a condition, which may be empty");
  std::vector<TensorType> types{{DType::i64, declared_single(graph, 0)}, {DType::boolean, declared_single(graph, 1)}};
  Values inputs{c.input_or_none(0), c.input_or_none(1)};
  for (size_t i = 2; i < c.input_count(); ++i) {
    inputs.push_back(c.input(i));
    types.push_back(c.graph().type(c.input(i)));
  }
  const size_t carried = c.input_count() - 2;
  Body body = import_loop_body(c, graph, types);
  check_outputs(c, body.graph.outputs.size(), 1);
  if (body.graph.outputs.size() < 1 + carried)
    c.invalid(fmt::format("it carries {} values, its body has {} outputs", carried, body.graph.outputs.size()));
  // Sizes that only become unknown in a second round are rare; a third takes all of them as unknown.
  for (int round = 0; widen(c, graph, body, round == 2, types); ++round) body = import_loop_body(c, graph, types);
  inputs.insert(inputs.end(), body.captures.begin(), body.captures.end());
  std::vector<Graph> bodies;
  bodies.push_back(std::move(body.graph));
  Values outputs = c.results(ops::Loop{static_cast<int64_t>(carried)}, std::move(inputs), std::move(bodies));
  unwrap_optionals(c, carried, outputs);
  return outputs;
}

constexpr Converter control_flow_table[] = {{"If", if_}, {"Loop", loop}};

}  // namespace

std::span<const Converter> control_flow_converters() {
  return control_flow_table;
}

}  // namespace camshaft::onnx
