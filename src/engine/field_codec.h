// Texts, fields of operators and elements of small tensors in the FlatBuffers form of an engine file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/copy_budget.h"
#include "engine_format_generated.h"
#include "ir/field.h"
#include "ir/tensor.h"

namespace camshaft {

using TextList = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;
using FieldList = flatbuffers::Vector<flatbuffers::Offset<format::Field>>;

flatbuffers::Offset<TextList> encode_texts(flatbuffers::FlatBufferBuilder& builder,
                                           const std::vector<std::string>& list);
std::vector<std::string> dim_texts(const Shape& shape);
flatbuffers::Offset<FieldList> encode_fields(flatbuffers::FlatBufferBuilder& builder, const Fields& fields);
/// The elements as they lie in memory; strings as length-prefixed text.
std::vector<uint8_t> element_bytes(const Tensor& tensor);

// What is absent is empty. All throw Error(corrupt_engine), and CopyBudget's.
std::string decode_text(const flatbuffers::String* stored, CopyBudget& budget);
std::vector<std::string> decode_texts(const TextList* list, CopyBudget& budget);
Shape decode_shape(const TextList* list, CopyBudget& budget);
Fields decode_fields(const FieldList* list, CopyBudget& budget);
/// `name` is the constant's, for messages.
Tensor decode_elements(DType dtype, Dims dims, const flatbuffers::Vector<uint8_t>* bytes, std::string_view name,
                       CopyBudget& budget);

}  // namespace camshaft
