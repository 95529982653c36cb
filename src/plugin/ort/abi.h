// The binary interface between ONNX Runtime and libraries of custom operators, written from its public documentation:
// the structs that both sides share. Objects that libraries see as pointers alone are in objects.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plugin/ort/slots.h"

namespace camshaft::ort {

/// The newest version of the interface that libraries may ask for. Tables only ever grew at their end.
constexpr uint32_t newest_api = 31;

struct Status;
struct MemoryInfo;
struct KernelInfo;
struct KernelContext;
struct ShapeContext;
struct KeyValuePairs;
struct SessionOptions;

/// ONNXTensorElementDataType.
enum ElementType : int32_t {
  undefined_element,
  f32_element,
  u8_element,
  i8_element,
  u16_element,
  i16_element,
  i32_element,
  i64_element,
  string_element,
  bool_element,
  f16_element,
  f64_element,
  u32_element,
  u64_element,
  complex64_element,
  complex128_element,
  bf16_element,
  f8e4m3fn_element,
  f8e4m3fnuz_element,
  f8e5m2_element,
  f8e5m2fnuz_element,
  u4_element,
  i4_element,
  f4e2m1_element,
  u2_element,
  i2_element,
  f8e8m0_element,
};

/// OrtErrorCode, as far as it is given.
enum StatusCode : int32_t {
  failed = 1,
  invalid_argument = 2,
  runtime_exception = 6,
  not_implemented = 9,
};

/// OrtOpAttrType.
enum AttributeKind : int32_t {
  no_attribute,
  int_attribute,
  ints_attribute,
  float_attribute,
  floats_attribute,
  string_attribute,
  strings_attribute,
  graph_attribute,
  tensor_attribute,
};

/// OrtCustomOpInputOutputCharacteristic.
enum Characteristic : int32_t { required_operand, optional_operand, variadic_operand };

struct Allocator {
  uint32_t version;
  void* (*alloc)(Allocator* self, size_t bytes);
  void (*free)(Allocator* self, void* memory);
  const MemoryInfo* (*info)(const Allocator* self);
  void* (*reserve)(Allocator* self, size_t bytes);
  Status* (*stats)(const Allocator* self, KeyValuePairs** out);
  void* (*alloc_on_stream)(Allocator* self, size_t bytes, void* stream);
};

/// OrtApi: called with the arguments of the function whose slot it is.
using ApiFunction = void (*)();
struct Api {
  ApiFunction functions[slot_count + spare_slots];
};

/// OrtApiBase.
struct ApiBase {
  const Api* (*get_api)(uint32_t version);
  const char* (*version)();
};

/// OrtCustomOp. What a library's `version` does not have yet is not to be read: see since_… below.
struct CustomOp {
  uint32_t version;
  void* (*create_kernel)(const CustomOp* op, const Api* api, const KernelInfo* info);
  const char* (*name)(const CustomOp* op);
  const char* (*execution_provider)(const CustomOp* op);
  ElementType (*input_type)(const CustomOp* op, size_t index);
  size_t (*input_count)(const CustomOp* op);
  ElementType (*output_type)(const CustomOp* op, size_t index);
  size_t (*output_count)(const CustomOp* op);
  void (*compute)(void* kernel, KernelContext* context);
  void (*destroy_kernel)(void* kernel);
  Characteristic (*input_characteristic)(const CustomOp* op, size_t index);
  Characteristic (*output_characteristic)(const CustomOp* op, size_t index);
  int32_t (*input_memory)(const CustomOp* op, size_t index);
  int (*variadic_input_least)(const CustomOp* op);
  int (*variadic_input_is_homogeneous)(const CustomOp* op);
  int (*variadic_output_least)(const CustomOp* op);
  int (*variadic_output_is_homogeneous)(const CustomOp* op);
  Status* (*create_kernel_v2)(const CustomOp* op, const Api* api, const KernelInfo* info, void** kernel);
  Status* (*compute_v2)(void* kernel, KernelContext* context);
  Status* (*infer_shapes)(const CustomOp* op, ShapeContext* context);
  int (*start_version)(const CustomOp* op);
  int (*end_version)(const CustomOp* op);
  // What may share memory: only hints.
  size_t (*may_inplace)(int** inputs, int** outputs);
  void (*release_may_inplace)(int* inputs, int* outputs);
  size_t (*alias_map)(int** inputs, int** outputs);
  void (*release_alias_map)(int* inputs, int* outputs);
};
constexpr uint32_t since_characteristics = 8, since_variadic = 14, since_v2_and_shapes = 17;

/// What a library exports.
constexpr const char* entry_name = "RegisterCustomOps";
using Entry = Status* (*)(SessionOptions* options, const ApiBase* base);

}  // namespace camshaft::ort
