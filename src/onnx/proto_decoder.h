// Messages of onnx.proto out of their bytes. Internal to the reader: call read_model() of proto_reader.h.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "onnx/proto.h"
#include "onnx/wire_reader.h"

namespace camshaft::onnx {

/// One function a message; `depth` counts graphs and types around the current one. Messages met twice where one is
/// expected are merged, as protobuf prescribes.
class Decoder {
 public:
  /// `source` must outlive the decoder.
  explicit Decoder(const WireSource& source) : source_(source) {}

  /// Throws Error(invalid_model).
  void model(ModelProto& out);
  static void tensor(WireReader reader, TensorProto& out);

 private:
  class Nesting;  // counts a level while it lives

  void graph(WireReader reader, GraphProto& out);
  void function(WireReader reader, FunctionProto& out);
  void node(WireReader reader, NodeProto& out);
  void attribute(WireReader reader, AttributeProto& out);
  static void sparse_tensor(WireReader reader, SparseTensorProto& out);
  void value_info(WireReader reader, ValueInfoProto& out);
  void type(WireReader reader, TypeProto& out);
  void element_type(WireReader reader, TypeProto& out);
  void map_type(WireReader reader, TypeProto& out);
  static void tensor_type(WireReader reader, TypeProto& out);
  static void shape(WireReader reader, std::vector<DimensionProto>& out);
  static void opset(WireReader reader, OpsetImports& out);
  static std::pair<std::string, std::string> entry(WireReader reader);
  static void metadata(WireReader reader, Metadata& out);
  /// "ai.onnx" is the long name of the default domain, "".
  static std::string normal_domain(const std::string& domain);

  const WireSource& source_;
  int depth_ = 0;
};

class Decoder::Nesting {
 public:
  Nesting(Decoder& decoder, const WireReader& reader);
  ~Nesting() { --decoder_.depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  Decoder& decoder_;
};

}  // namespace camshaft::onnx
