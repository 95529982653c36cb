// Samples of every operator, for what is to hold of all of them.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "ir/ops/operators.h"
#include "ir/test_plugin.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "reference/evaluate.h"
#include "reference/operator_sample_texts.h"

namespace camshaft {

/// An operator with the tensors that it reads and gives.
struct OperatorSample {
  Op op;
  std::vector<Graph> bodies;
  std::vector<Tensor> operands;  ///< undefined for omitted ones
  std::vector<Tensor> results;
};

namespace samples_detail {

// Numbers that f16 has, all different, in no order, or small integers; short texts; true and false by turns.
inline Tensor sample_tensor(const TensorType& type, int64_t& next) {
  Dims dims;
  for (const Dim& d : type.shape) dims.push_back(d.value());
  Tensor made(type.dtype, dims);
  std::vector<std::string> texts;
  for (int64_t i = 0; i < made.size(); ++i, ++next) {
    const int64_t number = next * 37 % 101;
    if (type.dtype == DType::f32)
      made.as_mutable<float>()[i] = static_cast<float>(number - 50) / 4 + static_cast<float>(next / 101 * 26);
    else if (type.dtype == DType::string)
      texts.push_back(std::string(1 + static_cast<size_t>(number % 3), 'a') + std::to_string(number));
    else
      made.mutable_data()[i] = static_cast<std::byte>(type.dtype == DType::boolean ? 1 - i % 2 : 1 + number % 7);
  }
  return type.dtype == DType::string ? Tensor::of(DType::string, dims, texts) : made;
}

inline OperatorSample sample_of(const SampleText& text, ThreadPool& pool) {
  Graph graph = parse_graph("graph (" + std::string(text.inputs) + ") {\n" + text.nodes + "\nreturn\n}", operators());
  const Node node = graph.nodes.back();
  for (const auto* ids : {&node.outputs, &node.inputs})
    for (const ValueId id : *ids)
      if (id != no_value) graph.add_output("output" + std::to_string(graph.outputs.size()), id);
  std::vector<Tensor> inputs;
  int64_t next = 0;
  for (const ValueId id : graph.inputs) inputs.push_back(sample_tensor(graph.type(id), next));
  const std::vector<Tensor> outputs = evaluate(graph, inputs, pool);
  OperatorSample sample{node.op, node.bodies, {}, {}};
  auto at = outputs.begin();
  for (size_t i = 0; i < node.outputs.size(); ++i) sample.results.push_back(*at++);
  for (const ValueId id : node.inputs) sample.operands.push_back(id == no_value ? Tensor() : *at++);
  return sample;
}

}  // namespace samples_detail

/// At least one of every operator of operators(), which a test holds; those with a layout have four axes. Numbers of
/// operands are exact in f16 and differ.
inline std::vector<OperatorSample> operator_samples(ThreadPool& pool) {
  std::vector<OperatorSample> samples;
  add_test_plugin();
  const auto add = [&](const auto& texts) {
    for (const samples_detail::SampleText& text : texts) samples.push_back(samples_detail::sample_of(text, pool));
  };
  add(samples_detail::computing);
  add(samples_detail::moving);
  add(samples_detail::others);
  return samples;
}

/// A graph of the operator alone: its operands of integers are constants, the others inputs, which `make_operand` makes
/// and adds. The results are its outputs.
template <class MakeOperand>
Graph graph_of_sample(const Op& op, const OperatorSample& sample, MakeOperand&& make_operand) {
  Graph graph;
  std::vector<ValueId> ids;
  for (size_t i = 0; i < sample.operands.size(); ++i) {
    const Tensor& operand = sample.operands[i];
    const bool is_index = operand.defined() && (operand.dtype() == DType::i64 || operand.dtype() == DType::i32);
    ids.push_back(!operand.defined() ? no_value : is_index ? graph.add_constant("c", operand) : make_operand(graph, i));
  }
  const std::vector<std::string> names(sample.results.size(), "y");
  for (const ValueId id : graph.add_node(op, ids, names, {}, sample.bodies)) graph.add_output(graph.value(id).name, id);
  return graph;
}

/// Whether its operands have types that their tensors do not tell.
inline bool takes_containers(const OperatorSample& sample) {
  return std::any_of(sample.operands.begin(), sample.operands.end(),
                     [](const Tensor& operand) { return operand.defined() && is_container(operand.dtype()); });
}

inline TensorType type_of(const Tensor& tensor) {
  return {tensor.dtype(), Shape(tensor.dims().begin(), tensor.dims().end())};
}

}  // namespace camshaft
