// The types of a model's inputs: what they declare, with the shapes that a build gives them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "onnx/importer.h"

namespace camshaft::onnx {

class InputTypes {
 public:
  /// `demanded`: sizes of symbols that the model's operators turned out to demand.
  InputTypes(const std::vector<ValueInfoProto>& inputs, const ImportOptions& options,
             std::map<std::string, int64_t> demanded = {});

  /// See import_model() for sizes without a number. `where` begins messages. Throws Error(unsupported) for an input
  /// that does not say how many axes it has, and where none of the shapes does.
  TensorType type(const ValueInfoProto& input, const std::string& where);

 private:
  struct Axis {
    std::string input;
    size_t axis = 0;
  };

  size_t given_rank(const std::string& input, const std::string& where) const;
  static std::optional<int64_t> size_of(const std::map<std::string, std::vector<int64_t>>& shapes, const Axis& axis);
  bool has_size(const Axis& axis) const;
  std::optional<int64_t> only_size(const Axis& axis) const;
  bool may_share(const std::string& symbol, const Axis& axis);
  Dim named(const std::string& symbol) const;

  const ImportOptions& options_;
  std::map<std::string, int64_t> demanded_;
  std::map<std::string, std::vector<Axis>> axes_;  // by the symbol they share
  std::map<std::string, int64_t> only_sizes_;      // of symbols that stand for one size in all sets of shapes
};

}  // namespace camshaft::onnx
