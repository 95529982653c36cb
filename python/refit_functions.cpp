// Functions over refitters.
#include <Python.h>
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "camshaft/refitter.hpp"
#include "functions.h"
#include "objects.h"
#include "tensors.h"

namespace camshaft::python {

namespace {

constexpr const char* capsule_name = "camshaft.refitter";
constexpr const char* of_tensors = "camshaft.tensors";

Refitter& refitter_of(PyObject* capsule) {
  auto* const refitter = static_cast<Refitter*>(PyCapsule_GetPointer(capsule, capsule_name));
  if (refitter == nullptr) throw PythonError();
  return *refitter;
}

PyObject* create(PyObject*, PyObject* capsule) {
  return guarded([&] {
    auto refitter = std::make_unique<Refitter>(engine_of(capsule));
    PyObject* const made = checked(PyCapsule_New(refitter.get(), capsule_name, [](PyObject* object) {
      delete static_cast<Refitter*>(PyCapsule_GetPointer(object, capsule_name));
    }));
    static_cast<void>(refitter.release());
    return made;
  });
}

PyObject* weights(PyObject*, PyObject* capsule) {
  return guarded([&] {
    const Refitter& refitter = refitter_of(capsule);
    return text(
        detail::record_of([&](camshaft_record** r) { return camshaft_refitter_weights(refitter.handle(), r); }).json());
  });
}

PyObject* missing(PyObject*, PyObject* capsule) {
  return guarded([&] { return list_of(refitter_of(capsule).missing(), [](const auto& name) { return text(name); }); });
}

PyObject* set(PyObject*, PyObject* arguments) {
  PyObject *capsule = nullptr, *tensor = nullptr;
  const char* name = nullptr;
  if (PyArg_ParseTuple(arguments, "OsO", &capsule, &name, &tensor) == 0) return nullptr;
  return guarded([&] {
    Refitter& refitter = refitter_of(capsule);
    refitter.set(name, view_of_capsule(tensor, {"the initializer", name}, false));
    return none();
  });
}

/// Of memory that must live until refit(), in types that DLPack does not have, too.
PyObject* set_memory(PyObject*, PyObject* arguments) {
  PyObject *capsule = nullptr, *dims = nullptr;
  const char *name = nullptr, *dtype = nullptr;
  unsigned long long address = 0;
  if (PyArg_ParseTuple(arguments, "OsKsO", &capsule, &name, &address, &dtype, &dims) == 0) return nullptr;
  return guarded([&] {
    const DType type = parse_dtype(dtype);
    const Dims sizes = numbers_of(dims);
    int64_t count = 1;
    for (const int64_t size : sizes) count *= size;
    const auto* const data = reinterpret_cast<const std::byte*>(static_cast<uintptr_t>(address));
    refitter_of(capsule).set(name, Tensor::view(type, sizes, data, byte_size(type, count)));
    return none();
  });
}

PyObject* weights_of_model(PyObject*, PyObject* arguments) {
  PyObject* names = nullptr;
  const char* folder = nullptr;
  unsigned long long address = 0;
  Py_ssize_t bytes = 0;
  if (PyArg_ParseTuple(arguments, "KnzO", &address, &bytes, &folder, &names) == 0) return nullptr;
  return guarded([&] {
    std::optional<std::vector<std::string>> wanted;
    if (names != Py_None) {
      wanted.emplace();
      for (Py_ssize_t i = 0, count = PySequence_Size(names); i < count; ++i)
        wanted->push_back(words_of(Reference(checked(PySequence_GetItem(names, i))).get()));
    }
    auto read = std::make_unique<NamedTensors>();
    {
      const Unlocked unlocked;
      const auto* const model = reinterpret_cast<const std::byte*>(static_cast<uintptr_t>(address));
      *read = model_weights({model, static_cast<size_t>(bytes)}, folder == nullptr ? "" : folder, wanted);
    }
    // Strings are objects, of which there is no memory.
    std::erase_if(*read, [](const auto& item) { return item.second.dtype() == DType::string; });
    Reference list(checked(list_of(*read, [](const auto& item) {
      const Tensor& tensor = item.second;
      return Py_BuildValue("(NKsN)", text(item.first),
                           static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(tensor.data())),
                           camshaft_dtype_name(static_cast<camshaft_dtype>(tensor.dtype())), numbers(tensor.dims()));
    })));
    PyObject* const owner = checked(PyCapsule_New(read.get(), of_tensors, [](PyObject* object) {
      delete static_cast<NamedTensors*>(PyCapsule_GetPointer(object, of_tensors));
    }));
    static_cast<void>(read.release());
    return checked(Py_BuildValue("(NN)", owner, list.release()));
  });
}

PyObject* set_file(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  const char* path = nullptr;
  if (PyArg_ParseTuple(arguments, "Os", &capsule, &path) == 0) return nullptr;
  return guarded([&] {
    Refitter& refitter = refitter_of(capsule);
    {
      const Unlocked unlocked;
      refitter.set_file(path);
    }
    return none();
  });
}

PyObject* set_lora(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  const char *adapter = nullptr, *path = nullptr;
  if (PyArg_ParseTuple(arguments, "Oss", &capsule, &adapter, &path) == 0) return nullptr;
  return guarded([&] {
    Refitter& refitter = refitter_of(capsule);
    {
      const Unlocked unlocked;
      refitter.set_lora(adapter, path);
    }
    return none();
  });
}

PyObject* refit(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  int threads = 0;
  if (PyArg_ParseTuple(arguments, "Oi", &capsule, &threads) == 0) return nullptr;
  return guarded([&] {
    Refitter& refitter = refitter_of(capsule);
    {
      const Unlocked unlocked;
      refitter.refit(threads);
    }
    return none();
  });
}

}  // namespace

PyMethodDef refit_functions[] = {
    {"create_refitter", create, METH_O, "create_refitter(engine) -> refitter"},
    {"refitter_weights", weights, METH_O, "refitter_weights(refitter) -> JSON, as camshaft_refitter_weights says"},
    {"refitter_missing", missing, METH_O, "refitter_missing(refitter) -> [name]"},
    {"refitter_set", set, METH_VARARGS, "refitter_set(refitter, name, dlpack), which must live until refit()"},
    {"refitter_set_memory", set_memory, METH_VARARGS,
     "refitter_set_memory(refitter, name, address, dtype, dims), which must live until refit()"},
    {"model_weights", weights_of_model, METH_VARARGS,
     "model_weights(address and bytes of a model, folder or None, [name] or None) -> (what holds them, "
     "[(name, address, dtype, dims)])"},
    {"refitter_set_file", set_file, METH_VARARGS, "refitter_set_file(refitter, path)"},
    {"refitter_set_lora", set_lora, METH_VARARGS, "refitter_set_lora(refitter, adapter, path)"},
    {"refit", refit, METH_VARARGS, "refit(refitter, threads)"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace camshaft::python
