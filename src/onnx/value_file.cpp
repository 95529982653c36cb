#include "onnx/value_file.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/mapped_file.h"
#include "onnx/proto_decoder.h"
#include "onnx/to_tensor.h"

namespace camshaft::onnx {

namespace {

using Kind = TypeProto::Kind;

class ValueReader {
 public:
  explicit ValueReader(const std::string& file) : mapped_(MappedFile::open(file)), source_{file, mapped_->bytes()} {
    around_.file = file;
    around_.storage = mapped_;
  }

  Tensor read(const TypeProto& type) { return value(WireReader(source_, source_.bytes, "a value"), type); }

 private:
  const TypeProto& element(const TypeProto& type, const WireReader& reader) {
    if (type.element.empty()) reader.fail("the type does not say what is held");
    return type.element[0];
  }

  Tensor value(WireReader reader, const TypeProto& type) {
    switch (type.kind) {
      case Kind::none:
      case Kind::tensor: {
        TensorProto proto;
        Decoder::tensor(reader, proto);
        return to_tensor(TensorReader(around_).read(proto));
      }
      case Kind::sequence:
        return Tensor::sequence(elements(reader, element(type, reader)));
      case Kind::optional: {
        std::vector<Tensor> one = elements(reader, element(type, reader));
        if (one.size() > 1) reader.fail("an optional holds several values");
        return Tensor::optional(one.empty() ? Tensor() : std::move(one[0]));
      }
      default:
        throw Error(ErrorCode::unsupported, fmt::format("{}: maps and sparse tensors cannot be read", source_.name));
    }
  }

  // SequenceProto and OptionalProto number their fields alike.
  std::vector<Tensor> elements(WireReader reader, const TypeProto& type) {
    std::vector<Tensor> out;
    const uint32_t wanted = type.kind == Kind::sequence ? 5 : type.kind == Kind::optional ? 7 : 3;
    while (reader.next()) {
      if (reader.field() >= 3 && reader.field() <= 7) {
        if (reader.field() != wanted) reader.fail("an element is not of the declared type");
        out.push_back(value(reader.message("an element"), type));
      } else {
        reader.skip();
      }
    }
    return out;
  }

  std::shared_ptr<const MappedFile> mapped_;
  WireSource source_;
  ModelProto around_;  // what a tensor's reader needs to know of the file
};

}  // namespace

Tensor read_value(const std::filesystem::path& file, const TypeProto& type) {
  return ValueReader(file.string()).read(type);
}

}  // namespace camshaft::onnx
