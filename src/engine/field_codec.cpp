#include "engine/field_codec.h"

#include <fmt/format.h>

#include <cstring>

#include "base/error.h"
#include "engine/damaged.h"

namespace camshaft {

namespace {

using Builder = flatbuffers::FlatBufferBuilder;

flatbuffers::Offset<format::Field> encode_field(Builder& b, const std::string& name, const FieldValue& value) {
  const auto name_offset = b.CreateString(name);
  flatbuffers::Offset<flatbuffers::String> text;
  flatbuffers::Offset<flatbuffers::Vector<int64_t>> integers;
  flatbuffers::Offset<flatbuffers::Vector<double>> numbers;
  flatbuffers::Offset<TextList> list;
  if (const auto* v = std::get_if<std::string>(&value)) text = b.CreateString(*v);
  if (const auto* v = std::get_if<std::vector<int64_t>>(&value)) integers = b.CreateVector(*v);
  if (const auto* v = std::get_if<std::vector<double>>(&value)) numbers = b.CreateVector(*v);
  if (const auto* v = std::get_if<std::vector<std::string>>(&value)) list = encode_texts(b, *v);
  if (const auto* v = std::get_if<Dim>(&value)) text = b.CreateString(v->str());
  if (const auto* v = std::get_if<Shape>(&value)) list = encode_texts(b, dim_texts(*v));
  format::FieldBuilder field(b);
  field.add_name(name_offset);
  field.add_type(static_cast<format::FieldType>(value.index()));
  if (const auto* v = std::get_if<int64_t>(&value)) field.add_integer(*v);
  if (const auto* v = std::get_if<bool>(&value)) field.add_integer(*v ? 1 : 0);
  if (const auto* v = std::get_if<double>(&value)) {
    b.ForceDefaults(true);  // -0, which equals the default
    field.add_number(*v);
    b.ForceDefaults(false);
  }
  if (!text.IsNull()) field.add_text(text);
  if (!integers.IsNull()) field.add_integers(integers);
  if (!numbers.IsNull()) field.add_numbers(numbers);
  if (!list.IsNull()) field.add_texts(list);
  return field.Finish();
}
// The variant's order is the schema's.
static_assert(
    std::is_same_v<std::variant_alternative_t<static_cast<size_t>(format::FieldType::number), FieldValue>, double>);
static_assert(
    std::is_same_v<std::variant_alternative_t<static_cast<size_t>(format::FieldType::flag), FieldValue>, bool>);
static_assert(std::is_same_v<std::variant_alternative_t<static_cast<size_t>(format::FieldType::texts), FieldValue>,
                             std::vector<std::string>>);
static_assert(
    std::is_same_v<std::variant_alternative_t<static_cast<size_t>(format::FieldType::shape), FieldValue>, Shape>);

FieldValue decode_field(const format::Field& field, CopyBudget& budget) {
  switch (field.type()) {
    case format::FieldType::integer:
      return field.integer();
    case format::FieldType::number:
      return field.number();
    case format::FieldType::flag:
      return field.integer() != 0;
    case format::FieldType::text:
      return decode_text(field.text(), budget);
    case format::FieldType::integers:
      return copy_numbers<int64_t>(field.integers(), budget);
    case format::FieldType::numbers:
      return copy_numbers<double>(field.numbers(), budget);
    case format::FieldType::texts:
      return decode_texts(field.texts(), budget);
    case format::FieldType::dim:
      return Dim::parse(field.text() ? decode_text(field.text(), budget) : "0");
    case format::FieldType::shape:
      return decode_shape(field.texts(), budget);
  }
  fail_corrupt(fmt::format("field '{}' has an unknown type", field.name()->string_view()));
}

Tensor decode_strings(Dims dims, const flatbuffers::Vector<uint8_t>* bytes) {
  const int64_t count = element_count(dims);
  const size_t size = bytes ? bytes->size() : 0;
  if (count > static_cast<int64_t>(size / 8)) fail_corrupt("a string constant is cut short");  // 8 bytes of length each
  std::vector<std::string> values;
  size_t at = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t length = 0;
    if (size - at < 8) fail_corrupt("a string constant is cut short");
    for (int shift = 0; shift < 64; shift += 8)
      length |= uint64_t{bytes->Get(static_cast<flatbuffers::uoffset_t>(at++))} << shift;
    if (length > size - at) fail_corrupt("a string constant is cut short");
    values.emplace_back(reinterpret_cast<const char*>(bytes->data()) + at, length);
    at += length;
  }
  return Tensor::of(DType::string, std::move(dims), values);
}

}  // namespace

flatbuffers::Offset<TextList> encode_texts(Builder& b, const std::vector<std::string>& list) {
  return b.CreateVectorOfStrings(list);
}

std::vector<std::string> dim_texts(const Shape& shape) {
  std::vector<std::string> list;
  for (const Dim& d : shape) list.push_back(d.str());
  return list;
}

flatbuffers::Offset<FieldList> encode_fields(Builder& b, const Fields& fields) {
  std::vector<flatbuffers::Offset<format::Field>> list;
  for (const auto& [name, value] : fields) list.push_back(encode_field(b, name, value));
  return b.CreateVector(list);
}

std::vector<uint8_t> element_bytes(const Tensor& tensor) {
  std::vector<uint8_t> bytes;
  if (is_container(tensor.dtype())) throw Error(ErrorCode::internal, "a container cannot be a constant");
  if (tensor.dtype() != DType::string) {
    const auto* data = reinterpret_cast<const uint8_t*>(tensor.data());
    if (tensor.bytes() > 0) bytes.assign(data, data + tensor.bytes());
    return bytes;
  }
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const std::string& s = tensor.as<std::string>()[i];
    for (int shift = 0; shift < 64; shift += 8) bytes.push_back(static_cast<uint8_t>(uint64_t{s.size()} >> shift));
    bytes.insert(bytes.end(), s.begin(), s.end());
  }
  return bytes;
}

std::string decode_text(const flatbuffers::String* stored, CopyBudget& budget) {
  if (!stored) return {};
  budget.take(stored->size());
  return stored->str();
}

std::vector<std::string> decode_texts(const TextList* list, CopyBudget& budget) {
  std::vector<std::string> out;
  if (!list) return out;
  budget.take(list->size() * sizeof(flatbuffers::uoffset_t));
  for (const auto* s : *list) out.push_back(decode_text(s, budget));
  return out;
}

Shape decode_shape(const TextList* list, CopyBudget& budget) {
  Shape shape;
  for (const std::string& dim : decode_texts(list, budget)) shape.push_back(Dim::parse(dim));
  return shape;
}

Fields decode_fields(const FieldList* list, CopyBudget& budget) {
  Fields fields;
  if (list)
    for (const format::Field* field : *list)
      fields.emplace_back(decode_text(field->name(), budget), decode_field(*field, budget));
  return fields;
}

Tensor decode_elements(DType dtype, Dims dims, const flatbuffers::Vector<uint8_t>* stored, std::string_view name,
                       CopyBudget& budget) {
  const size_t size = stored ? stored->size() : 0;
  budget.take(size);
  if (dtype == DType::string) return decode_strings(std::move(dims), stored);
  if (size != byte_size(dtype, element_count(dims)))
    fail_corrupt(fmt::format("constant '{}' has the wrong size", name));
  Tensor tensor(dtype, std::move(dims));
  if (size > 0) std::memcpy(tensor.mutable_data(), stored->data(), size);
  return tensor;
}

}  // namespace camshaft
