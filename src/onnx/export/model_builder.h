// What all graphs of a model that is written share: names, operator sets, and the bytes of its tensors.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/op.h"
#include "onnx/export/names.h"
#include "onnx/proto.h"

namespace camshaft::onnx {

/// An operator of ONNX: since when its domain has it as it is used here. Operators that are older than
/// `least_operator_set` need not say so.
struct Operator {
  Operator(const char* type, int64_t since_version = 0, const char* of_domain = "")
      : op_type(type), since(since_version), domain(of_domain) {}

  std::string op_type;
  int64_t since;
  std::string domain;
};

/// Quantisation by blocks, of 4-bit and of 16-bit steps came with operator set 21, and ONNX Runtime, TensorRT and
/// OpenVINO of 2024 read it. Models are written for it, or for the first one that has all that they use: so that as
/// much software as can be reads them.
constexpr int64_t least_operator_set = 21;

class ModelBuilder {
 public:
  Names names;

  /// Raises the version of a domain to what an operator needs.
  void use(const Operator& op);
  /// Raises the version of the default domain to what values of a type need.
  void use(const TensorType& type);
  OpsetImports opsets() const { return opsets_; }
  /// The oldest version of the file format that has the operator sets in use.
  int64_t ir_version() const;

  /// The bytes are the tensor's, which lives as long as storage().
  TensorProto tensor(std::string name, const Tensor& value);
  std::shared_ptr<const void> storage() const { return tensors_; }

 private:
  OpsetImports opsets_{{"", least_operator_set}};
  std::shared_ptr<std::vector<Tensor>> tensors_ = std::make_shared<std::vector<Tensor>>();
};

/// The type of a value: symbols are dimensions by name; sizes that only running tells, and those that no name stands
/// for, are left open.
TypeProto type_proto(const TensorType& type);

/// The version of the format that models of a version of ONNX's operator set are written in.
int64_t ir_version_of(int64_t opset);

}  // namespace camshaft::onnx
