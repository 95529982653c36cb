// Calls ONNX Runtime's OrtApi by the names of its functions. The same library runs in ONNX Runtime and in Camshaft: if
// a place in the table were another one than in ONNX Runtime's release, it would fail there.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "plugin/ort/abi.h"

namespace test {

using namespace camshaft::ort;

// Of this copy of the library alone, where a process has two.
static const Api* table = nullptr;

struct Value;
struct TensorInfo;
struct TypeInfo;
struct OpAttribute;
struct Domain;
struct Logger;
struct CalledOp;

template <class Result = Status*, class... Arguments>
Result call(size_t function, Arguments... arguments) {
  return reinterpret_cast<Result (*)(Arguments...)>(table->functions[function])(arguments...);
}

inline void check(Status* status) {
  if (!status) return;
  const std::string message = call<const char*>(slot("GetErrorMessage"), static_cast<const Status*>(status));
  call<void>(slot("ReleaseStatus"), status);
  throw std::runtime_error(message);
}

inline Status* failure(const char* message) {
  return call(slot("CreateStatus"), int32_t{1}, message);
}

struct Input {
  const Value* value = nullptr;
  std::vector<int64_t> dims;
  ElementType type = undefined_element;
  int64_t size = 0;
  template <class T>
  const T* data() const {
    void* data = nullptr;
    check(call(slot("GetTensorMutableData"), const_cast<Value*>(value), &data));
    return static_cast<const T*>(data);
  }
};

/// What is said of a type and shape, which is released.
inline void read(TensorInfo* info, Input& input) {
  const auto* from = const_cast<const TensorInfo*>(info);
  size_t rank = 0, size = 0;
  check(call(slot("GetDimensionsCount"), from, &rank));
  input.dims.resize(rank);
  check(call(slot("GetDimensions"), from, input.dims.data(), rank));
  check(call(slot("GetTensorElementType"), from, &input.type));
  check(call(slot("GetTensorShapeElementCount"), from, &size));
  input.size = static_cast<int64_t>(size);
  call<void>(slot("ReleaseTensorTypeAndShapeInfo"), info);
}

inline Input input(KernelContext* context, size_t index) {
  Input input;
  check(call(slot("KernelContext_GetInput"), const_cast<const KernelContext*>(context), index, &input.value));
  if (!input.value) return input;
  TensorInfo* info = nullptr;
  check(call(slot("GetTensorTypeAndShape"), input.value, &info));
  read(info, input);
  return input;
}

inline size_t inputs(KernelContext* context) {
  size_t count = 0;
  check(call(slot("KernelContext_GetInputCount"), const_cast<const KernelContext*>(context), &count));
  return count;
}

template <class T>
T* output(KernelContext* context, size_t index, const std::vector<int64_t>& dims) {
  Value* value = nullptr;
  check(call(slot("KernelContext_GetOutput"), context, index, dims.data(), dims.size(), &value));
  void* data = nullptr;
  if (value) check(call(slot("GetTensorMutableData"), value, &data));
  return static_cast<T*>(data);
}

/// A text that is asked for twice: how long it is, and what it is.
template <class... Arguments>
std::string text(size_t function, Arguments... arguments) {
  size_t size = 0;
  check(call(function, arguments..., static_cast<char*>(nullptr), &size));
  std::string text(size, 0);
  check(call(function, arguments..., text.data(), &size));
  text.resize(size - 1);
  return text;
}

/// An operator as C++ has it: a struct with a name, types, a constructor of KernelInfo, and compute().
template <class Kernel>
const CustomOp* op_of() {
  static CustomOp op = {};
  op.version = 17;
  op.name = [](const CustomOp*) { return Kernel::name; };
  op.execution_provider = [](const CustomOp*) -> const char* { return nullptr; };
  op.input_count = [](const CustomOp*) { return sizeof Kernel::takes / sizeof Kernel::takes[0]; };
  op.input_type = [](const CustomOp*, size_t i) { return Kernel::takes[i]; };
  op.output_count = [](const CustomOp*) { return sizeof Kernel::gives / sizeof Kernel::gives[0]; };
  op.output_type = [](const CustomOp*, size_t i) { return Kernel::gives[i]; };
  op.input_characteristic = [](const CustomOp*, size_t i) {
    if constexpr (requires { Kernel::input_is(i); }) return Kernel::input_is(i);
    return required_operand;
  };
  op.output_characteristic = [](const CustomOp*, size_t i) {
    if constexpr (requires { Kernel::output_is(i); }) return Kernel::output_is(i);
    return required_operand;
  };
  op.input_memory = [](const CustomOp*, size_t) { return int32_t{0}; };
  op.variadic_input_least = op.variadic_output_least = [](const CustomOp*) { return 1; };
  op.variadic_input_is_homogeneous = op.variadic_output_is_homogeneous = [](const CustomOp*) { return 1; };
  op.start_version = [](const CustomOp*) { return 1; };
  op.end_version = [](const CustomOp*) { return 1000; };
  op.create_kernel_v2 = [](const CustomOp*, const Api*, const KernelInfo* info, void** kernel) -> Status* {
    try {
      *kernel = new Kernel(info);
      return nullptr;
    } catch (const std::exception& e) {
      return failure(e.what());
    }
  };
  op.compute_v2 = [](void* kernel, KernelContext* context) -> Status* {
    try {
      static_cast<Kernel*>(kernel)->compute(context);
      return nullptr;
    } catch (const std::exception& e) {
      return failure(e.what());
    }
  };
  op.destroy_kernel = [](void* kernel) { delete static_cast<Kernel*>(kernel); };
  if constexpr (requires { Kernel::infer; })
    op.infer_shapes = [](const CustomOp*, ShapeContext* context) { return Kernel::infer(context); };
  return &op;
}

}  // namespace test
