// The names of values and nodes in a model that is written.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

namespace camshaft::onnx {

/// Whether a string can name a value of an ONNX model: text in UTF-8 that is not empty (an empty name leaves an input
/// out, and protobuf's strings are UTF-8).
bool is_valid_name(std::string_view name);

/// Names, each given out once. A model has one set of them for all its graphs: a name of a graph may not stand for
/// something else in a graph inside it.
class Names {
 public:
  /// Takes a name as it is; false where it is no valid one, or taken.
  bool take(const std::string& name);
  /// `base`, with what is no UTF-8 replaced by '_', and a number behind it where it is taken.
  std::string unique(std::string_view base);

 private:
  std::unordered_map<std::string, int> next_;
};

}  // namespace camshaft::onnx
