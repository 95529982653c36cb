// Imports small models and evaluates them.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "ir/verify.h"
#include "onnx/importer.h"
#include "onnx/model_writer.h"
#include "onnx/proto_reader.h"
#include "reference/evaluate.h"

namespace camshaft::onnx::testing {

inline ImportedModel import_bytes(const std::string& bytes) {
  // The graph's constants are views of the bytes, which are often a temporary's.
  const auto storage = std::make_shared<const std::string>(bytes);
  ImportedModel model = import_model(read_model(std::as_bytes(std::span(*storage)), "test.onnx", storage));
  verify(model.graph, "the importer");
  return model;
}

/// The graph of a model with this ONNX graph.
inline Graph import_graph(const GraphWriter& graph, int64_t opset) {
  return import_bytes(ModelWriter().opset(opset).opset(1, "com.microsoft").graph(graph).bytes()).graph;
}

inline Tensor floats(const Dims& dims, const std::vector<float>& values) {
  return Tensor::of<float>(DType::f32, dims, values);
}

inline std::vector<Tensor> run(const Graph& graph, const std::vector<Tensor>& inputs) {
  ThreadPool pool(1);
  return evaluate(graph, inputs, pool);
}

inline void expect_near(const Tensor& actual, const Dims& dims, const std::vector<double>& expected,
                        double tolerance = 1e-5) {
  EXPECT_EQ(actual.dims(), dims);
  const std::vector<double> values = actual.to_doubles();
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], tolerance) << "element " << i;
}

/// One node on `inputs` (dtypes and dims as given, f32 tensors named a, b, c, …), then its first output.
inline Tensor run_node(const std::string& op_type, int64_t opset, const std::vector<Tensor>& inputs,
                       const std::vector<AttributeWriter>& attributes = {}, const std::string& domain = {}) {
  GraphWriter graph;
  std::vector<std::string> names;
  for (const Tensor& t : inputs) {
    names.emplace_back(1, static_cast<char>('a' + names.size()));
    graph.input(names.back(), t.dtype(), ShapeWriter(t.dims().begin(), t.dims().end()));
  }
  graph.output("y", DType::f32).node(op_type, names, {"y"}, attributes, domain);
  return run(import_graph(graph, opset), inputs).at(0);
}

/// What importing throws: its code and message.
inline Error import_error(const std::string& bytes) {
  try {
    import_bytes(bytes);
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {ErrorCode::internal, ""};
}

inline std::vector<std::string> op_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.emplace_back(node.op.name());
  return names;
}

inline std::string type_of_output(const Graph& graph, size_t i = 0) {
  return to_string(graph.type(graph.outputs.at(i)));
}

}  // namespace camshaft::onnx::testing
