// Functions over runs that are not waited for, and over what right results are.
#include <Python.h>
#include <fmt/format.h>

#include <exception>
#include <memory>
#include <string>

#include "camshaft/cancellation.hpp"
#include "camshaft/context.hpp"
#include "camshaft/engine.hpp"
#include "camshaft/reference.hpp"
#include "functions.h"
#include "objects.h"
#include "tensors.h"

namespace camshaft::python {

namespace {

constexpr const char* cancellation_name = "camshaft.Cancellation";
constexpr const char* tensor_name = "camshaft.Tensor";

template <class T>
T& held(PyObject* capsule, const char* name) {
  auto* value = static_cast<T*>(PyCapsule_GetPointer(capsule, name));
  if (value == nullptr) throw PythonError();
  return *value;
}

PyObject* create_cancellation(PyObject*, PyObject*) {
  return guarded([] { return owning(std::make_unique<Cancellation>(), cancellation_name); });
}

PyObject* cancel(PyObject*, PyObject* capsule) {
  return guarded([&] {
    held<Cancellation>(capsule, cancellation_name).cancel();
    return none();
  });
}

/// Calls the function with None, or with the exception that a run ended with; holds Python's lock for it.
void tell(PyObject* function, const std::exception_ptr& thrown) {
  const PyGILState_STATE state = ensure_lock();
  Reference error(thrown ? nullptr : none());
  if (thrown) {
    set_error(thrown);
    PyObject *type = nullptr, *value = nullptr, *at = nullptr;
    PyErr_Fetch(&type, &value, &at);
    PyErr_NormalizeException(&type, &value, &at);
    Py_XDECREF(type);
    Py_XDECREF(at);
    error.reset(value);
  }
  PyObject* result = ending_there([&] { return PyObject_CallFunctionObjArgs(function, error.get(), nullptr); });
  if (result == nullptr) PyErr_WriteUnraisable(function);
  Py_XDECREF(result);
  error.reset();
  Py_DECREF(function);
  release_lock(state);
}

PyObject* set_cancellation(PyObject*, PyObject* arguments) {
  PyObject *capsule = nullptr, *cancellation = nullptr;
  if (PyArg_ParseTuple(arguments, "OO", &capsule, &cancellation) == 0) return nullptr;
  return guarded([&] {
    context_of(capsule).set_cancellation(held<Cancellation>(cancellation, cancellation_name));
    return none();
  });
}

PyObject* run_async(PyObject*, PyObject* arguments) {
  PyObject *capsule = nullptr, *function = nullptr;
  if (PyArg_ParseTuple(arguments, "OO", &capsule, &function) == 0) return nullptr;
  return guarded([&] {
    Context& context = context_of(capsule);
    Py_INCREF(function);
    try {
      const Unlocked unlocked;
      context.run_async([function](std::exception_ptr thrown) { tell(function, thrown); });
    } catch (...) {
      Py_DECREF(function);
      throw;
    }
    return none();
  });
}

/// [(name, dims)]
NamedShapes shapes_of(PyObject* pairs) {
  NamedShapes shapes;
  each(pairs, [&](PyObject* pair) {
    const Reference name(checked(PySequence_GetItem(pair, 0))), dims(checked(PySequence_GetItem(pair, 1)));
    shapes[words_of(name.get())] = numbers_of(dims.get());
  });
  return shapes;
}

PyObject* sample_inputs(PyObject*, PyObject* arguments) {
  PyObject *capsule = nullptr, *shapes = nullptr;
  unsigned long long seed = 0;
  if (PyArg_ParseTuple(arguments, "OOK", &capsule, &shapes, &seed) == 0) return nullptr;
  return guarded([&] {
    const NamedTensors inputs = engine_of(capsule).sample_inputs(shapes_of(shapes), seed);
    return list_of(inputs, [](const auto& input) {
      PyObject* tensor = owning(std::make_unique<Tensor>(input.second), tensor_name);
      return tensor == nullptr ? nullptr : Py_BuildValue("(sN)", input.first.c_str(), tensor);
    });
  });
}

PyObject* tensor_dlpack(PyObject*, PyObject* capsule) {
  return guarded([&] { return capsule_of(held<Tensor>(capsule, tensor_name), capsule); });
}

PyObject* tensor_value(PyObject*, PyObject* capsule) {
  return guarded([&] { return value_of(held<Tensor>(capsule, tensor_name)); });
}

PyObject* compare_arrays(PyObject*, PyObject* arguments) {
  const char* name = nullptr;
  PyObject *expected = nullptr, *actual = nullptr;
  double tolerance = 0;
  if (PyArg_ParseTuple(arguments, "sOOd", &name, &expected, &actual, &tolerance) == 0) return nullptr;
  return guarded([&] {
    const Tensor right = tensor_of(expected, {"what should be output", name});
    const Tensor given = tensor_of(actual, {"output", name});
    return text(detail::record_of([&](camshaft_record** error) {
                  return camshaft_compare(name, right.handle(), given.handle(), tolerance, error);
                }).json());
  });
}

}  // namespace

PyMethodDef run_functions[] = {
    {"create_cancellation", create_cancellation, METH_NOARGS, "create_cancellation() -> cancellation"},
    {"cancel", cancel, METH_O, "cancel(cancellation)"},
    {"set_cancellation", set_cancellation, METH_VARARGS, "set_cancellation(context, cancellation)"},
    {"run_async", run_async, METH_VARARGS,
     "run_async(context, function of None or the exception, which another thread calls)"},
    {"sample_inputs", sample_inputs, METH_VARARGS, "sample_inputs(engine, [(name, dims)], seed) -> [(name, tensor)]"},
    {"tensor_dlpack", tensor_dlpack, METH_O, "tensor_dlpack(tensor) -> dlpack"},
    {"tensor_value", tensor_value, METH_O, "tensor_value(tensor) -> the form that set_input() takes"},
    {"compare", compare_arrays, METH_VARARGS, "compare(name, expected dlpack, actual dlpack, tolerance) -> JSON"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace camshaft::python
