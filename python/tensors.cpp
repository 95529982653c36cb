#include "tensors.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "camshaft/error.hpp"
#include "dlpack.h"
#include "objects.h"

namespace camshaft::python {

namespace {

constexpr std::pair<DType, dlpack::DataType> types[] = {
    {DType::f64, {dlpack::floating, 64}},
    {DType::f32, {dlpack::floating, 32}},
    {DType::f16, {dlpack::floating, 16}},
    {DType::bf16, {dlpack::brain_float, 16}},
    {DType::i64, {dlpack::signed_integer, 64}},
    {DType::i32, {dlpack::signed_integer, 32}},
    {DType::i16, {dlpack::signed_integer, 16}},
    {DType::i8, {dlpack::signed_integer, 8}},
    {DType::u64, {dlpack::unsigned_integer, 64}},
    {DType::u32, {dlpack::unsigned_integer, 32}},
    {DType::u16, {dlpack::unsigned_integer, 16}},
    {DType::u8, {dlpack::unsigned_integer, 8}},
    {DType::boolean, {dlpack::boolean, 8}},
    {DType::f8e4m3, {dlpack::float8_e4m3fn, 8}},
    {DType::f8e4m3fnuz, {dlpack::float8_e4m3fnuz, 8}},
    {DType::f8e5m2, {dlpack::float8_e5m2, 8}},
    {DType::f8e5m2fnuz, {dlpack::float8_e5m2fnuz, 8}},
    {DType::f8e8m0, {dlpack::float8_e8m0fnu, 8}},
};

bool is_dense(const dlpack::Tensor& tensor) {
  if (tensor.strides == nullptr) return true;
  int64_t stride = 1, empty = 0;
  for (int32_t d = 0; d < tensor.rank; ++d) empty |= tensor.shape[d] == 0;
  if (empty != 0) return true;
  for (int32_t d = tensor.rank; d-- > 0; stride *= tensor.shape[d])
    if (tensor.shape[d] != 1 && tensor.strides[d] != stride) return false;
  return true;
}

std::string said(const ArrayUse& use) {
  return use.name.empty() ? std::string(use.kind) : fmt::format("{} '{}'", use.kind, use.name);
}

Device device_of(const dlpack::Device& device, const ArrayUse& use) {
  switch (device.type) {
    case dlpack::cpu:
    case dlpack::cuda_pinned:
    case dlpack::cuda:
    case dlpack::cuda_managed:
      return {static_cast<int32_t>(device.type), device.ordinal};
    default:
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{} is on a device of DLPack's type {}: give an array of the CPU or of a CUDA device",
                              said(use), static_cast<int>(device.type)));
  }
}

struct Exported {
  dlpack::Managed managed;
  std::vector<int64_t> shape;
  PyObject* owner = nullptr;
};

void release(dlpack::Managed* managed) {
  const std::unique_ptr<Exported> exported(static_cast<Exported*>(managed->owner));
  const PyGILState_STATE state = ensure_lock();
  give_up(exported->owner);
  release_lock(state);
}

// Of a capsule that nobody took: who takes one renames it.
void release_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor") == 0) return;
  auto* managed = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule, "dltensor"));
  managed->release(managed);
}

}  // namespace

Tensor view_of_capsule(PyObject* capsule, const ArrayUse& use, bool writable) {
  const dlpack::Tensor* tensor = nullptr;
  bool is_read_only = false;
  if (PyCapsule_IsValid(capsule, "dltensor") != 0) {
    tensor = &static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule, "dltensor"))->tensor;
  } else if (PyCapsule_IsValid(capsule, "dltensor_versioned") != 0) {
    const auto* versioned = static_cast<dlpack::ManagedVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
    if (versioned->major != 1)
      throw Error(ErrorCode::invalid_argument, fmt::format("{} is given through version {} of DLPack; 1 is understood",
                                                           said(use), versioned->major));
    tensor = &versioned->tensor;
    is_read_only = (versioned->flags & dlpack::read_only) != 0;
  } else {
    throw Error(ErrorCode::invalid_argument, fmt::format("{} is no DLPack tensor", said(use)));
  }
  if (writable && is_read_only)
    throw Error(ErrorCode::invalid_argument, fmt::format("{} is bound to an array that may not be written", said(use)));
  const Device device = device_of(tensor->device, use);
  std::optional<DType> dtype;
  for (const auto& [ours, theirs] : types)
    if (theirs == tensor->dtype) dtype = ours;
  if (!dtype)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} has elements of DLPack's type {} with {} bits, which engines do not take", said(use),
                            tensor->dtype.code, tensor->dtype.bits));
  if (!is_dense(*tensor))
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} is not row-major without gaps: give a contiguous array", said(use)));
  const Dims dims(tensor->shape, tensor->shape + tensor->rank);
  int64_t count = 1;
  for (const int64_t d : dims) count *= d;
  return Tensor::view(*dtype, dims, static_cast<const std::byte*>(tensor->data) + tensor->byte_offset,
                      byte_size(*dtype, count), device);
}

Tensor tensor_of_texts(PyObject* texts, const Dims& dims) {
  Tensor tensor(DType::string, dims);
  int64_t index = 0;
  each(texts, [&](PyObject* item) {
    char* begin = nullptr;
    Py_ssize_t size = 0;
    if (PyBytes_AsStringAndSize(item, &begin, &size) != 0) throw PythonError();
    tensor.set_text(index++, {begin, static_cast<size_t>(size)});
  });
  if (index != tensor.size())
    throw Error(ErrorCode::invalid_argument, fmt::format("{} texts are given for {} elements", index, tensor.size()));
  return tensor;
}

Tensor tensor_of(PyObject* given, const ArrayUse& use) {
  if (PyTuple_Check(given) == 0) return view_of_capsule(given, use, false);
  const Reference kind(checked(PySequence_GetItem(given, 0))), second(checked(PySequence_GetItem(given, 1)));
  const DType dtype = parse_dtype(words_of(kind.get()));
  if (dtype == DType::string) {
    const Reference texts(checked(PySequence_GetItem(given, 2)));
    return tensor_of_texts(texts.get(), numbers_of(second.get()));
  }
  std::vector<Tensor> elements;
  each(second.get(), [&](PyObject* element) { elements.push_back(tensor_of(element, use)); });
  return Tensor::container(dtype, elements);
}

PyObject* value_of(const Tensor& tensor) {
  const DType dtype = tensor.dtype();
  const bool is_text = dtype == DType::string;
  if (!is_text && !is_container(dtype)) {
    const Reference owner(checked(owning(std::make_unique<Tensor>(tensor), "camshaft.Tensor")));
    return capsule_of(tensor, owner.get());
  }
  const Reference list(checked(PyList_New(0)));
  for (int64_t i = 0; i < tensor.size(); ++i) {
    const std::string words = is_text ? tensor.text(i) : "";
    const Reference made(checked(is_text
                                     ? PyBytes_FromStringAndSize(words.data(), static_cast<Py_ssize_t>(words.size()))
                                     : value_of(tensor.element(i))));
    if (PyList_Append(list.get(), made.get()) != 0) throw PythonError();
  }
  if (!is_text) return Py_BuildValue("(NO)", text(to_string(dtype)), list.get());
  return Py_BuildValue("(NNO)", text(to_string(dtype)), numbers(tensor.dims()), list.get());
}

PyObject* capsule_of(const Tensor& from, PyObject* owner) {
  auto exported = std::make_unique<Exported>();
  exported->shape = from.dims();
  dlpack::Tensor& tensor = exported->managed.tensor;
  tensor.data = const_cast<std::byte*>(from.data());
  if (!from.device().is_host()) tensor.device = {dlpack::cuda, from.device().ordinal};
  tensor.rank = static_cast<int32_t>(exported->shape.size());
  tensor.shape = exported->shape.data();
  bool is_known = false;
  for (const auto& [ours, theirs] : types) {
    if (ours != from.dtype()) continue;
    tensor.dtype = theirs;
    is_known = true;
  }
  if (!is_known)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("DLPack has no tensors of {}", camshaft::to_string(from.dtype())));
  exported->managed.owner = exported.get();
  exported->managed.release = release;
  PyObject* capsule = PyCapsule_New(&exported->managed, "dltensor", release_capsule);
  if (capsule == nullptr) return nullptr;
  Py_INCREF(owner);
  exported->owner = owner;
  exported.release();
  return capsule;
}

}  // namespace camshaft::python
