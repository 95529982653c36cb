// The tensors that a model names, as constants that say so.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "ir/provenance.h"
#include "onnx/proto.h"

namespace camshaft::onnx {

/// Gives initializers and the outputs of Constant nodes the names that provenances have of them: the model's own in the
/// main graph, and in functions and sub-graphs with the path of what they are in before them. A name stands for one
/// tensor: where calls of one name give a function's constants other values, a number is put behind it.
class NamedTensors {
 public:
  /// `all`, where it is not null, is filled with every tensor that is named.
  explicit NamedTensors(const GraphProto& main, std::map<std::string, Tensor>* all = nullptr);

  /// `prefix` is empty in the main graph. Without a name it is a literal.
  Constant add(const std::string& prefix, const std::string& name, Tensor tensor);

  /// What tells the collectives of a model apart, those of its sub-graphs too: 0, 1, … in the order in which they are
  /// converted.
  int64_t number_collective() { return collectives_++; }

 private:
  std::string name_of(const std::string& base, const Tensor& tensor);

  std::unordered_set<std::string> main_;           // names of the main graph
  std::unordered_map<std::string, Tensor> inner_;  // of all others
  std::map<std::string, Tensor>* all_;
  int64_t collectives_ = 0;
};

}  // namespace camshaft::onnx
