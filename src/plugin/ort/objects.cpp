#include "plugin/ort/objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace camshaft::ort {

namespace {

struct TypePair {
  DType dtype;
  ElementType element;
};
constexpr TypePair type_pairs[] = {
    {DType::f64, f64_element},         {DType::f32, f32_element},
    {DType::f16, f16_element},         {DType::bf16, bf16_element},
    {DType::f8e4m3, f8e4m3fn_element}, {DType::f8e5m2, f8e5m2_element},
    {DType::f4e2m1, f4e2m1_element},   {DType::i64, i64_element},
    {DType::i32, i32_element},         {DType::i16, i16_element},
    {DType::i8, i8_element},           {DType::i4, i4_element},
    {DType::u64, u64_element},         {DType::u32, u32_element},
    {DType::u16, u16_element},         {DType::u8, u8_element},
    {DType::u4, u4_element},           {DType::boolean, bool_element},
    {DType::string, string_element},   {DType::f8e4m3fnuz, f8e4m3fnuz_element},
    {DType::i2, i2_element},           {DType::f8e5m2fnuz, f8e5m2fnuz_element},
    {DType::u2, u2_element},
};

const TypePair* pair_of(ElementType type) {
  const auto* it = std::find_if(std::begin(type_pairs), std::end(type_pairs),
                                [&](const TypePair& pair) { return pair.element == type; });
  return it == std::end(type_pairs) ? nullptr : it;
}

}  // namespace

ElementType element_type(DType dtype) {
  for (const TypePair& pair : type_pairs)
    if (pair.dtype == dtype) return pair.element;
  return undefined_element;
}

bool has_dtype(ElementType type) {
  return pair_of(type) != nullptr;
}

DType dtype_of(ElementType type, const std::string& what) {
  if (const TypePair* pair = pair_of(type)) return pair->dtype;
  throw Error(ErrorCode::unsupported, fmt::format("{} has the element type {} of ONNX Runtime, which Camshaft lacks",
                                                  what, static_cast<int>(type)));
}

TensorInfo::TensorInfo(ElementType element, std::vector<int64_t> sizes)
    : type(element), dims(std::move(sizes)), symbols(dims.size()) {}

TensorInfo::TensorInfo(const OperandFacts& operand) : type(operand.type), has_shape(operand.has_shape) {
  for (const std::string& dim : operand.dims) {
    int64_t size = 0;
    const bool known = is_number(dim, size);
    dims.push_back(known ? size : -1);
    symbols.push_back(known ? "" : dim);
  }
}

const PluginAttribute* NodeOfKernel::find(const char* name) const {
  for (const PluginAttribute& attribute : attributes)
    if (name && attribute.name == name) return &attribute;
  return nullptr;
}

KernelContext::KernelContext(const PluginCall& run, const NodeFacts& node, std::string called)
    : call(run), facts(node), who(std::move(called)), asked(run.outputs.size()) {
  for (const PluginOperand& input : run.inputs) inputs.push_back({input.dtype, input.dims, input.data});
  for (const PluginOperand& output : run.outputs) outputs.push_back({output.dtype, output.dims, output.data});
}

}  // namespace camshaft::ort
