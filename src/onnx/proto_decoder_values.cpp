// Decoder's messages for values: tensors, types, declared values, and the small pairs.
#include <fmt/format.h>

#include <charconv>

#include "onnx/proto_decoder.h"
#include "onnx/quote.h"

namespace camshaft::onnx {

std::string Decoder::normal_domain(const std::string& domain) {
  return domain == "ai.onnx" ? std::string() : domain;
}

std::pair<std::string, std::string> Decoder::entry(WireReader reader) {
  std::pair<std::string, std::string> out;
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        out.first = reader.string();
        break;
      case 2:
        out.second = reader.string();
        break;
      default:
        reader.skip();
    }
  }
  return out;
}

void Decoder::metadata(WireReader reader, Metadata& out) {
  auto [key, value] = entry(reader);
  out.insert_or_assign(std::move(key), std::move(value));
}

void Decoder::opset(WireReader reader, OpsetImports& out) {
  std::string domain;
  int64_t version = 0;
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        domain = normal_domain(reader.string());
        break;
      case 2:
        version = reader.int64();
        break;
      default:
        reader.skip();
    }
  }
  if (version < 1) reader.fail(fmt::format("operator set {} has version {}", quote(domain), version));
  const auto [known, added] = out.emplace(domain, version);
  if (!added && known->second != version)
    reader.fail(
        fmt::format("operator set {} is imported twice, as version {} and {}", quote(domain), known->second, version));
}

namespace {

uint64_t parse_size(const WireReader& reader, const std::string& key, const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    reader.fail(fmt::format("external data: {} is {}, which is no count of bytes", key, quote(text)));
  return value;
}

}  // namespace

void Decoder::tensor(WireReader reader, TensorProto& out) {
  bool is_external = false;
  std::vector<std::pair<std::string, std::string>> external;
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        reader.append(out.dims);
        break;
      case 2:
        out.data_type = reader.int32();
        break;
      case 3:
        out.segmented = true;
        reader.skip();
        break;
      case 4:
        reader.append(out.float_data);
        break;
      case 5:
        reader.append(out.int32_data);
        break;
      case 6:
        out.string_data.push_back(reader.string());
        break;
      case 7:
        reader.append(out.int64_data);
        break;
      case 8:
        out.name = reader.string();
        break;
      case 9:
        out.raw_data = reader.bytes();
        break;
      case 10:
        reader.append(out.double_data);
        break;
      case 11:
        reader.append(out.uint64_data);
        break;
      case 13:
        external.push_back(entry(reader.message("StringStringEntryProto")));
        break;
      case 14:
        is_external = reader.int32() == 1;
        break;
      default:
        reader.skip();
    }
  }
  if (!is_external) return;
  out.external.emplace();
  for (const auto& [key, value] : external) {
    if (key == "location") out.external->location = value;
    if (key == "offset") out.external->offset = parse_size(reader, key, value);
    if (key == "length") out.external->length = parse_size(reader, key, value);
  }
  if (out.external->location.empty())
    reader.fail(fmt::format("tensor {} has external data without a location", quote(out.name)));
}

void Decoder::sparse_tensor(WireReader reader, SparseTensorProto& out) {
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        tensor(reader.message("TensorProto"), out.values);
        break;
      case 2:
        tensor(reader.message("TensorProto"), out.indices);
        break;
      case 3:
        reader.append(out.dims);
        break;
      default:
        reader.skip();
    }
  }
}

void Decoder::shape(WireReader reader, std::vector<DimensionProto>& out) {
  while (reader.next()) {
    if (reader.field() != 1) {
      reader.skip();
      continue;
    }
    DimensionProto& dimension = out.emplace_back();
    WireReader inner = reader.message("TensorShapeProto.Dimension");
    while (inner.next()) {
      switch (inner.field()) {
        case 1:
          dimension.value = inner.int64();
          dimension.param.clear();
          break;
        case 2:
          dimension.param = inner.string();
          dimension.value.reset();
          break;
        default:
          inner.skip();
      }
    }
    // Several exporters write -1 for "any".
    if (dimension.value && *dimension.value < 0) dimension.value.reset();
  }
}

void Decoder::tensor_type(WireReader reader, TypeProto& out) {
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        out.elem_type = reader.int32();
        break;
      case 2:
        if (!out.shape) out.shape.emplace();
        shape(reader.message("TensorShapeProto"), *out.shape);
        break;
      default:
        reader.skip();
    }
  }
}

void Decoder::element_type(WireReader reader, TypeProto& out) {
  out.element.resize(1);
  while (reader.next()) {
    if (reader.field() == 1)
      type(reader.message("TypeProto"), out.element[0]);
    else
      reader.skip();
  }
}

void Decoder::map_type(WireReader reader, TypeProto& out) {
  out.element.resize(1);
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        out.key_type = reader.int32();
        break;
      case 2:
        type(reader.message("TypeProto"), out.element[0]);
        break;
      default:
        reader.skip();
    }
  }
}

void Decoder::type(WireReader reader, TypeProto& out) {
  const Nesting nesting(*this, reader);
  using Kind = TypeProto::Kind;
  // A oneof: another kind replaces the one before.
  const auto become = [&](Kind kind) {
    if (out.kind != kind) out = TypeProto{};
    out.kind = kind;
  };
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        become(Kind::tensor);
        tensor_type(reader.message("TypeProto.Tensor"), out);
        break;
      case 4:
        become(Kind::sequence);
        element_type(reader.message("TypeProto.Sequence"), out);
        break;
      case 5:
        become(Kind::map);
        map_type(reader.message("TypeProto.Map"), out);
        break;
      case 8:
        become(Kind::sparse_tensor);
        tensor_type(reader.message("TypeProto.SparseTensor"), out);
        break;
      case 9:
        become(Kind::optional);
        element_type(reader.message("TypeProto.Optional"), out);
        break;
      default:
        reader.skip();
    }
  }
}

void Decoder::value_info(WireReader reader, ValueInfoProto& out) {
  while (reader.next()) {
    switch (reader.field()) {
      case 1:
        out.name = reader.string();
        break;
      case 2:
        type(reader.message("TypeProto"), out.type);
        break;
      default:
        reader.skip();
    }
  }
  if (out.name.empty()) reader.fail("a declared value has no name");
}

}  // namespace camshaft::onnx
