// Functions over what contexts are given beside arrays: shapes, memory at addresses, profilers.
#include <Python.h>

#include <memory>

#include "camshaft/context.hpp"
#include "camshaft/profiler.hpp"
#include "camshaft/system.hpp"
#include "functions.h"
#include "objects.h"
#include "tensors.h"

namespace camshaft::python {

namespace {

constexpr const char* profiler_name = "camshaft.Profiler";

Profiler& profiler_of(PyObject* capsule) {
  auto* profiler = static_cast<Profiler*>(PyCapsule_GetPointer(capsule, profiler_name));
  if (profiler == nullptr) throw PythonError();
  return *profiler;
}

PyObject* set_input_shape(PyObject*, PyObject* arguments) {
  PyObject *capsule = nullptr, *dims = nullptr;
  const char* name = nullptr;
  if (PyArg_ParseTuple(arguments, "OsO", &capsule, &name, &dims) == 0) return nullptr;
  return guarded([&] {
    context_of(capsule).set_input_shape(name, numbers_of(dims));
    return none();
  });
}

PyObject* dlpack_of_address(PyObject*, PyObject* arguments) {
  unsigned long long address = 0;
  const char* dtype = nullptr;
  PyObject *dims = nullptr, *owner = Py_None;
  int ordinal = -1;
  if (PyArg_ParseTuple(arguments, "KsOi|O", &address, &dtype, &dims, &ordinal, &owner) == 0) return nullptr;
  return guarded([&] {
    const DType type = parse_dtype(dtype);
    const Dims sizes = numbers_of(dims);
    int64_t count = 1;
    for (const int64_t size : sizes) count *= size;
    return capsule_of(Tensor::view(type, sizes, reinterpret_cast<const std::byte*>(address), byte_size(type, count),
                                   ordinal < 0 ? Device{} : Device{Device::cuda, ordinal}),
                      owner);
  });
}

PyObject* create_profiler(PyObject*, PyObject*) {
  return guarded([] { return owning(std::make_unique<Profiler>(), profiler_name); });
}

PyObject* set_profiler(PyObject*, PyObject* arguments) {
  PyObject *capsule = nullptr, *profiler = nullptr;
  if (PyArg_ParseTuple(arguments, "OO", &capsule, &profiler) == 0) return nullptr;
  return guarded([&] {
    context_of(capsule).set_profiler(profiler == Py_None ? nullptr : &profiler_of(profiler));
    return none();
  });
}

PyObject* reset_profiler(PyObject*, PyObject* capsule) {
  return guarded([&] {
    profiler_of(capsule).reset();
    return none();
  });
}

PyObject* profiled_layers(PyObject*, PyObject* capsule) {
  return guarded([&] {
    const Profiler& profiler = profiler_of(capsule);
    return text(detail::record_of([&](camshaft_record** layers) {
                  return camshaft_profiler_layers(profiler.handle(), layers);
                }).json());
  });
}

PyObject* keep_runs(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  long long most = 0;
  if (PyArg_ParseTuple(arguments, "OL", &capsule, &most) == 0) return nullptr;
  return guarded([&] {
    profiler_of(capsule).keep_runs(most);
    return none();
  });
}

PyObject* kept_runs(PyObject*, PyObject* capsule) {
  return guarded([&] {
    const Profiler& profiler = profiler_of(capsule);
    return text(detail::record_of([&](camshaft_record** runs) {
                  return camshaft_profiler_runs(profiler.handle(), runs);
                }).json());
  });
}

PyObject* list_devices(PyObject*, PyObject*) {
  return guarded([] { return text(devices().json()); });
}

PyObject* list_operators(PyObject*, PyObject*) {
  return guarded([] { return text(known_operators().json()); });
}

}  // namespace

PyMethodDef context_functions[] = {
    {"set_input_shape", set_input_shape, METH_VARARGS, "set_input_shape(context, name, dims)"},
    {"dlpack_of_address", dlpack_of_address, METH_VARARGS,
     "dlpack_of_address(address, dtype, dims, number of the GPU, -1 for the host, owner=None) -> dlpack"},
    {"create_profiler", create_profiler, METH_NOARGS, "create_profiler() -> profiler"},
    {"set_profiler", set_profiler, METH_VARARGS, "set_profiler(context, profiler or None)"},
    {"reset_profiler", reset_profiler, METH_O, "reset_profiler(profiler)"},
    {"profiled_layers", profiled_layers, METH_O, "profiled_layers(profiler) -> JSON"},
    {"keep_runs", keep_runs, METH_VARARGS, "keep_runs(profiler, most)"},
    {"kept_runs", kept_runs, METH_O, "kept_runs(profiler) -> JSON, as camshaft_profiler_runs says"},
    {"list_devices", list_devices, METH_NOARGS, "list_devices() -> JSON"},
    {"list_operators", list_operators, METH_NOARGS, "list_operators() -> JSON"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace camshaft::python
