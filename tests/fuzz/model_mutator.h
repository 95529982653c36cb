// Changes ONNX models as plain values, so that what comes out still decodes and goes deep into the importer.
#pragma once

#include <cstdint>
#include <deque>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "onnx/proto.h"

namespace camshaft::onnx {

/// One random change after another to one model: operators, attributes, edges, initializers, declared shapes, operator
/// sets, sub-graphs and functions. Deterministic in the seed.
class ModelMutator {
 public:
  ModelMutator(ModelProto& model, uint32_t seed);
  void mutate();
  /// Adds the nodes, inputs and initializers of `other` to this model under names of their own, and may feed them
  /// values of this one.
  void join(const ModelProto& other);

  /// Bytes that mutated tensors point to; they must live until the model is written.
  std::deque<std::string> storage;

 private:
  // A list of nodes with the names that it can read: the main graph, sub-graphs, functions' bodies.
  struct Body {
    std::vector<NodeProto>* nodes;
    GraphProto* graph;  // null in functions
    std::vector<std::string> names;
  };

  uint32_t below(uint32_t n) { return n == 0 ? 0 : static_cast<uint32_t>(random_() % n); }
  bool one_in(uint32_t n) { return below(n) == 0; }
  template <class T>
  auto& any(T& list) {
    return list[below(static_cast<uint32_t>(std::size(list)))];
  }
  int64_t integer();
  float real();
  std::string word();
  std::string text();
  std::string bytes(size_t size);

  void collect();
  void collect(GraphProto& graph, std::vector<std::string> names);
  void collect(std::vector<NodeProto>& nodes, GraphProto* graph, std::vector<std::string> names);

  void mutate_node(Body& body);
  void mutate_edges(NodeProto& node, const Body& body);
  void mutate_attributes(NodeProto& node);
  void mutate_attribute(AttributeProto& attribute);
  AttributeProto new_attribute();
  void become_other_operator(NodeProto& node);
  void insert_node(Body& body);
  void mutate_list(Body& body);
  void mutate_tensor(TensorProto& tensor);
  void fill(TensorProto& tensor);
  void mutate_initializers(GraphProto& graph);
  void mutate_type(TypeProto& type);
  void mutate_interface(GraphProto& graph);
  void mutate_opsets();
  void mutate_functions(Body& body);

  ModelProto& model_;
  std::mt19937 random_;
  std::vector<Body> bodies_;
  std::vector<AttributeProto> attributes_;  // of all nodes, without graphs
  int fresh_ = 0;
};

}  // namespace camshaft::onnx
