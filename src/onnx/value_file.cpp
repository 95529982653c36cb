#include "onnx/value_file.h"

#include <fmt/format.h>

#include "base/mapped_file.h"
#include "camshaft/error.h"
#include "onnx/proto_decoder.h"
#include "onnx/to_tensor.h"

namespace camshaft::onnx {

Tensor read_value(const std::filesystem::path& file, const TypeProto& type) {
  if (type.kind != TypeProto::Kind::none && type.kind != TypeProto::Kind::tensor)
    throw Error(ErrorCode::unsupported, fmt::format("{}: only tensors can be read", file.string()));
  auto mapped = MappedFile::open(file.string());
  const WireSource source{file.string(), mapped->bytes()};
  TensorProto proto;
  Decoder::tensor(WireReader(source, source.bytes, "TensorProto"), proto);
  ModelProto around;  // what a tensor's reader needs to know of the file
  around.file = file.string();
  around.storage = std::move(mapped);
  return to_tensor(TensorReader(around).read(proto));
}

}  // namespace camshaft::onnx
