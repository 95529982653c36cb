#include "objects.h"

#include <exception>
#include <new>

namespace camshaft::python {

namespace {

constexpr const char* engine_name = "camshaft.Engine";
constexpr const char* context_name = "camshaft.Context";
constexpr const char* network_name = "camshaft network";

PyObject* error_types = nullptr;

}  // namespace

PyObject* checked(PyObject* object) {
  if (object == nullptr) throw PythonError();
  return object;
}

bool set_error_types(PyObject* types) {
  if (PyDict_Check(types) == 0) {
    PyErr_SetString(PyExc_TypeError, "the types of errors are a dict");
    return false;
  }
  Py_INCREF(types);
  Py_XDECREF(error_types);
  error_types = types;
  return true;
}

void set_error(const Error& error, PyObject* report) {
  PyObject* type = error_types == nullptr ? nullptr : PyDict_GetItemString(error_types, to_string(error.code()));
  if (type == nullptr) type = PyExc_RuntimeError;
  const Reference message(text(error.what()));
  const Reference made(message ? PyObject_CallFunctionObjArgs(type, message.get(), nullptr) : nullptr);
  if (!made) return;
  if (report != nullptr && PyObject_SetAttrString(made.get(), "_report", report) != 0) return;
  PyErr_SetObject(type, made.get());
}

void set_error(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const PythonError&) {
  } catch (const Error& e) {
    set_error(e);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
}

PyObject* none() {
  Py_INCREF(Py_None);
  return Py_None;
}

PyObject* text(std::string_view words) {
  return PyUnicode_DecodeUTF8(words.data(), static_cast<Py_ssize_t>(words.size()), "replace");
}

std::string words_of(PyObject* text) {
  const Reference bytes(checked(PyUnicode_AsUTF8String(text)));
  char* begin = nullptr;
  Py_ssize_t size = 0;
  if (PyBytes_AsStringAndSize(bytes.get(), &begin, &size) != 0) throw PythonError();
  return {begin, static_cast<size_t>(size)};
}

std::vector<int64_t> numbers_of(PyObject* sequence) {
  const Py_ssize_t count = PySequence_Size(sequence);
  if (count < 0) throw PythonError();
  std::vector<int64_t> values;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const Reference item(checked(PySequence_GetItem(sequence, i)));
    values.push_back(PyLong_AsLongLong(item.get()));
    if (values.back() == -1 && PyErr_Occurred() != nullptr) throw PythonError();
  }
  return values;
}

PyObject* numbers(const std::vector<int64_t>& values) {
  return list_of(values, [](int64_t value) { return PyLong_FromLongLong(value); });
}

PyObject* described(const std::vector<TensorInfo>& infos) {
  return list_of(infos, [](const TensorInfo& info) {
    return Py_BuildValue("(NNNNNN)", text(info.name), text(to_string(info.dtype)), numbers(info.dims),
                         list_of(info.dim_names, text), text(info.type), text(info.aliased_input));
  });
}

PyObject* capsule_of_engine(std::unique_ptr<Engine> engine) {
  return owning(std::move(engine), engine_name);
}
PyObject* capsule_of_context(std::unique_ptr<Context> context) {
  return owning(std::move(context), context_name);
}
PyObject* capsule_of_network(camshaft_network* network) {
  PyObject* capsule = PyCapsule_New(network, network_name, [](PyObject* of) {
    camshaft_network_free(static_cast<camshaft_network*>(PyCapsule_GetPointer(of, network_name)));
  });
  if (capsule == nullptr) camshaft_network_free(network);
  return capsule;
}

Engine& engine_of(PyObject* capsule) {
  auto* engine = static_cast<Engine*>(PyCapsule_GetPointer(capsule, engine_name));
  if (engine == nullptr) throw PythonError();
  return *engine;
}
Context& context_of(PyObject* capsule) {
  auto* context = static_cast<Context*>(PyCapsule_GetPointer(capsule, context_name));
  if (context == nullptr) throw PythonError();
  return *context;
}
camshaft_network* network_of(PyObject* capsule) {
  auto* network = static_cast<camshaft_network*>(PyCapsule_GetPointer(capsule, network_name));
  if (network == nullptr) throw PythonError();
  return network;
}

}  // namespace camshaft::python
