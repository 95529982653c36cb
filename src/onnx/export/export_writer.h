// One graph of a model that is written: the names of its values, its constants, and the arithmetic on its sizes.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "onnx/export/attributes.h"
#include "onnx/export/model_builder.h"

namespace camshaft::onnx {

/// Appends nodes and constants to a GraphProto. Graphs of bodies see the names of the graphs around them.
class ExportWriter {
 public:
  /// `around` is null for the model's own graph, and must outlive this one.
  ExportWriter(ModelBuilder& builder, ExportWriter* around) : model(builder), around_(around) {}
  ExportWriter(const ExportWriter&) = delete;
  ExportWriter& operator=(const ExportWriter&) = delete;

  ModelBuilder& model;
  GraphProto graph;
  std::string node_name;  ///< of the nodes that are appended, made unique

  /// Appends a node with these outputs.
  void add(const Operator& op, std::vector<std::string> inputs, std::vector<std::string> outputs,
           Attributes attributes = {});
  /// Appends a node with one output, and returns its name, made of the node's.
  std::string add(const Operator& op, std::vector<std::string> inputs, Attributes attributes = {});

  /// The name of a constant: one that helps to write a node, and is shared by all that need the same, …
  std::string constant(const Tensor& value);
  /// … and one of the graph, which keeps its own.
  std::string named_constant(const std::string& name, const Tensor& value);

  /// Remembers the sizes of a value of which nothing was known: where symbols are told from.
  void add_symbols(const std::string& name, const TensorType& type);
  /// A size as a tensor i64 [1]. Throws Error(unsupported) for a symbol that no value's shape tells.
  std::string size(const Dim& dim);
  /// Sizes as a tensor i64 [n].
  std::string sizes(const Shape& dims);

 private:
  struct SymbolSource {
    std::string value;
    size_t axis = 0;
    bool is_sequence = false;
  };
  ExportWriter& root() { return around_ ? around_->root() : *this; }
  const std::string* find_constant(const std::string& key) const;
  const std::string* find_size(const std::string& key) const;
  const SymbolSource* find_symbol(const std::string& symbol) const;
  std::string add_constant(const std::string& name, const Tensor& value, bool is_named);
  std::string symbol(const std::string& name);
  std::string floor_div(const Dim& a, const Dim& b);

  ExportWriter* around_;
  std::unordered_map<std::string, std::string> constants_;  // by what they hold
  std::unordered_map<std::string, std::string> sizes_;      // by the expression
  std::unordered_map<std::string, SymbolSource> symbols_;
};

}  // namespace camshaft::onnx
