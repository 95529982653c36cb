// Attributes, and what a shape rule is told.
#include <fmt/format.h>

#include <cstring>

#include "plugin/ort/api.h"

namespace camshaft::ort {

namespace {

using Integers = std::vector<int64_t>;
using Numbers = std::vector<double>;
using Texts = std::vector<std::string>;

AttributeKind kind_of_attribute(const PluginAttribute& attribute) {
  if (std::holds_alternative<Integers>(attribute.value)) return attribute.single ? int_attribute : ints_attribute;
  if (std::holds_alternative<Numbers>(attribute.value)) return attribute.single ? float_attribute : floats_attribute;
  if (std::holds_alternative<Texts>(attribute.value)) return attribute.single ? string_attribute : strings_attribute;
  return tensor_attribute;
}

/// The attribute's list, which must be of this type; the error that libraries get otherwise is thrown.
template <class List>
const List& list_of(const PluginAttribute* attribute, const char* name, const char* kind, bool single) {
  if (!attribute)
    throw Error(ErrorCode::invalid_argument, fmt::format("the node has no attribute '{}'", name ? name : ""));
  const auto* list = std::get_if<List>(&attribute->value);
  if (!list || attribute->single != single)
    throw Error(ErrorCode::invalid_argument, fmt::format("the attribute '{}' is no {}", name, kind));
  return *list;
}

template <class To, class List>
Status* give_list(const List& list, To* out, size_t* size) {
  const size_t room = *size;
  *size = list.size();
  if (!out) return nullptr;
  if (room < list.size()) return failure(invalid_argument, "the buffer is too small for the attribute");
  for (size_t i = 0; i < list.size(); ++i) out[i] = static_cast<To>(list[i]);
  return nullptr;
}

// ---- Of a node that a kernel is made for ----

Status* float_of_node(const KernelInfo* info, const char* name, float* out) {
  return guarded([&]() -> Status* {
    *out = static_cast<float>(list_of<Numbers>(info->node->find(name), name, "float", true)[0]);
    return nullptr;
  });
}
Status* integer_of_node(const KernelInfo* info, const char* name, int64_t* out) {
  return guarded([&]() -> Status* {
    *out = list_of<Integers>(info->node->find(name), name, "int", true)[0];
    return nullptr;
  });
}
Status* text_of_node(const KernelInfo* info, const char* name, char* out, size_t* size) {
  return guarded([&] { return give_text(list_of<Texts>(info->node->find(name), name, "string", true)[0], out, size); });
}
Status* floats_of_node(const KernelInfo* info, const char* name, float* out, size_t* size) {
  return guarded([&] { return give_list(list_of<Numbers>(info->node->find(name), name, "floats", false), out, size); });
}
Status* integers_of_node(const KernelInfo* info, const char* name, int64_t* out, size_t* size) {
  return guarded([&] { return give_list(list_of<Integers>(info->node->find(name), name, "ints", false), out, size); });
}
Status* texts_of_node(const KernelInfo* info, const char* name, Allocator* allocator, char*** out, size_t* size) {
  return guarded([&]() -> Status* {
    const Texts& texts = list_of<Texts>(info->node->find(name), name, "strings", false);
    *size = texts.size();
    *out = static_cast<char**>(allocator->alloc(allocator, texts.size() * sizeof(char*)));
    for (size_t i = 0; i < texts.size(); ++i) {
      (*out)[i] = static_cast<char*>(allocator->alloc(allocator, texts[i].size() + 1));
      std::memcpy((*out)[i], texts[i].c_str(), texts[i].size() + 1);
    }
    return nullptr;
  });
}
Value* copy_of_tensor(const Tensor& tensor) {
  auto value = std::make_unique<Value>(Value{tensor.dtype(), tensor.dims()});
  value->memory = std::make_shared<std::byte[]>(tensor.bytes());
  value->data = value->memory.get();
  if (tensor.bytes() > 0) std::memcpy(value->data, tensor.data(), tensor.bytes());
  return value.release();
}
Status* tensor_of_node(const KernelInfo* info, const char* name, Allocator*, Value** out) {
  return guarded([&]() -> Status* {
    const PluginAttribute* attribute = info->node->find(name);
    const Tensor* tensor = attribute ? std::get_if<Tensor>(&attribute->value) : nullptr;
    if (!tensor) return failure(failed, fmt::format("the node has no attribute '{}' that is a tensor", name));
    *out = copy_of_tensor(*tensor);
    return nullptr;
  });
}

// ---- By themselves ----

/// The bytes of the attribute as ReadOpAttr gives them: numbers, a text, or texts with a 0 behind each.
std::string bytes_of_attribute(const PluginAttribute& attribute) {
  std::string bytes;
  const auto append = [&](const auto& value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  if (const auto* integers = std::get_if<Integers>(&attribute.value)) {
    for (const int64_t value : *integers) append(value);
  } else if (const auto* numbers = std::get_if<Numbers>(&attribute.value)) {
    for (const double value : *numbers) append(static_cast<float>(value));
  } else if (const auto* texts = std::get_if<Texts>(&attribute.value)) {
    for (const std::string& text : *texts) bytes.append(text.c_str(), text.size() + (attribute.single ? 0 : 1));
  }
  return bytes;
}

Status* read_attribute(const OpAttribute* op, AttributeKind kind, void* out, size_t room, size_t* size) {
  return guarded([&]() -> Status* {
    if (kind_of_attribute(op->attribute) != kind || kind == tensor_attribute)
      return failure(invalid_argument, fmt::format("the attribute '{}' is of another type", op->attribute.name));
    const std::string bytes = bytes_of_attribute(op->attribute);
    if (size) *size = bytes.size();
    if (room < bytes.size()) return failure(invalid_argument, "the buffer is too small for the attribute");
    if (!bytes.empty()) std::memcpy(out, bytes.data(), bytes.size());
    return nullptr;
  });
}
Status* make_attribute(const char* name, const void* data, int count, AttributeKind kind, OpAttribute** out) {
  return guarded([&]() -> Status* {
    if (count < 0) return failure(invalid_argument, "an attribute has a negative length");
    PluginAttribute made{name, Integers()};
    const auto n = static_cast<size_t>(count);
    made.single = kind == int_attribute || kind == float_attribute || kind == string_attribute;
    if (kind == int_attribute || kind == ints_attribute) {
      const auto* values = static_cast<const int64_t*>(data);
      made.value = Integers(values, values + (made.single ? 1 : n));
    } else if (kind == float_attribute || kind == floats_attribute) {
      const auto* values = static_cast<const float*>(data);
      made.value = Numbers(values, values + (made.single ? 1 : n));
    } else if (kind == string_attribute) {
      made.value = Texts{std::string(static_cast<const char*>(data))};
    } else if (kind == strings_attribute) {
      const auto* values = static_cast<const char* const*>(data);
      made.value = Texts(values, values + n);
    } else {
      return failure(not_implemented, fmt::format("attributes of type {} cannot be made", static_cast<int>(kind)));
    }
    *out = new OpAttribute{std::move(made)};
    return nullptr;
  });
}
void release_attribute(OpAttribute* op) {
  delete op;
}
Status* type_of_attribute(const OpAttribute* op, AttributeKind* out) {
  *out = kind_of_attribute(op->attribute);
  return nullptr;
}
Status* name_of_attribute(const OpAttribute* op, const char** out) {
  *out = op->attribute.name.c_str();
  return nullptr;
}
Status* tensor_of_attribute(const OpAttribute* op, Value** out) {
  return guarded([&]() -> Status* {
    const auto* tensor = std::get_if<Tensor>(&op->attribute.value);
    if (!tensor) return failure(invalid_argument, "the attribute is no tensor");
    *out = copy_of_tensor(*tensor);
    return nullptr;
  });
}

// ---- Shape rules ----

Status* count_of_inputs(const ShapeContext* context, size_t* out) {
  *out = context->inputs.size();
  return nullptr;
}
Status* input_of_rule(const ShapeContext* context, size_t index, TensorInfo** out) {
  if (index >= context->inputs.size()) return failure(invalid_argument, fmt::format("there is no operand {}", index));
  *out = const_cast<TensorInfo*>(&context->inputs[index]);
  return nullptr;
}
Status* attribute_of_rule(const ShapeContext* context, const char* name, const OpAttribute** out) {
  for (const OpAttribute& op : context->attributes)
    if (op.attribute.name == name) {
      *out = &op;
      return nullptr;
    }
  return failure(invalid_argument, fmt::format("the node has no attribute '{}'", name));
}
Status* set_output_of_rule(const ShapeContext* context, size_t index, const TensorInfo* info) {
  return guarded([&]() -> Status* {
    const_cast<ShapeContext*>(context)->outputs[index] = *info;
    return nullptr;
  });
}

}  // namespace

void add_attribute_functions(Api& t) {
  put(t, slot("KernelInfoGetAttribute_float"), float_of_node);
  put(t, slot("KernelInfoGetAttribute_int64"), integer_of_node);
  put(t, slot("KernelInfoGetAttribute_string"), text_of_node);
  put(t, slot("KernelInfoGetAttributeArray_float"), floats_of_node);
  put(t, slot("KernelInfoGetAttributeArray_int64"), integers_of_node);
  put(t, slot("KernelInfoGetAttributeArray_string"), texts_of_node);
  put(t, slot("KernelInfoGetAttribute_tensor"), tensor_of_node);
  put(t, slot("ReadOpAttr"), read_attribute);
  put(t, slot("CreateOpAttr"), make_attribute);
  put(t, slot("ReleaseOpAttr"), release_attribute);
  put(t, slot("OpAttr_GetType"), type_of_attribute);
  put(t, slot("OpAttr_GetName"), name_of_attribute);
  put(t, slot("OpAttr_GetTensorAttributeAsOrtValue"), tensor_of_attribute);
  put(t, slot("ShapeInferContext_GetInputCount"), count_of_inputs);
  put(t, slot("ShapeInferContext_GetInputTypeShape"), input_of_rule);
  put(t, slot("ShapeInferContext_GetAttribute"), attribute_of_rule);
  put(t, slot("ShapeInferContext_SetOutputTypeShape"), set_output_of_rule);
}

}  // namespace camshaft::ort
