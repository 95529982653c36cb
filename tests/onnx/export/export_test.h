// Writes graphs as ONNX and reads them back.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "ir/ops/operators.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "onnx/export/export_model.h"
#include "onnx/importer.h"
#include "onnx/proto_reader.h"
#include "onnx/proto_writer.h"
#include "reference/evaluate.h"

namespace camshaft::onnx::testing {

/// What a file with the model gives.
inline Graph read_back(const ModelProto& model) {
  const auto bytes = std::make_shared<const std::string>(model_bytes(model));
  const Graph graph = import_model(read_model(std::as_bytes(std::span(*bytes)), "copy.onnx", bytes)).graph;
  verify(graph, "the importer");
  return graph;
}

inline Graph graph_of(const std::string& text) {
  return parse_graph(text, operators());
}

inline std::vector<Tensor> results(const Graph& graph, const std::vector<Tensor>& inputs) {
  ThreadPool pool(1);
  return evaluate(graph, inputs, pool);
}

/// The graph and what is read back of its export give the same bits.
inline void expect_same(const Graph& graph, const std::vector<Tensor>& inputs) {
  const Graph copy = read_back(export_model(graph));
  EXPECT_EQ(copy.output_names, graph.output_names);
  const std::vector<Tensor> expected = results(graph, inputs), actual = results(copy, inputs);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(actual[i] == expected[i]) << "output " << i << "\n" << print(copy);
}

inline std::vector<std::string> operators_of(const ModelProto& model) {
  std::vector<std::string> types;
  for (const NodeProto& node : model.graph.nodes) types.push_back(node.op_type);
  return types;
}

}  // namespace camshaft::onnx::testing
