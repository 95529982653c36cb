// The Python module camshaft._native: functions over capsules, which python/camshaft/__init__.py makes classes of.
//
// Of Python's C interface only the stable part is used, so that one file serves every Python from 3.9 on.
#include <Python.h>
#include <fmt/format.h>

#include <memory>
#include <new>
#include <span>
#include <string>

#include "camshaft/context.hpp"
#include "camshaft/engine.hpp"
#include "tensors.h"

namespace camshaft::python {

namespace {

PyObject* error_type = nullptr;

constexpr const char* engine_name = "camshaft.Engine";
constexpr const char* context_name = "camshaft.Context";

PyObject* text(std::string_view words) {
  return PyUnicode_DecodeUTF8(words.data(), static_cast<Py_ssize_t>(words.size()), "replace");
}

void set_error(const Error& e) {
  PyObject* message = text(e.what());
  PyObject* made = message == nullptr ? nullptr : PyObject_CallFunctionObjArgs(error_type, message, nullptr);
  Py_XDECREF(message);
  if (made == nullptr) return;
  PyObject* code = text(to_string(e.code()));
  if (code != nullptr && PyObject_SetAttrString(made, "code", code) == 0) PyErr_SetObject(error_type, made);
  Py_XDECREF(code);
  Py_DECREF(made);
}

/// What `call` gives; null, with Python's error set, for what it throws.
template <class Call>
PyObject* guarded(Call&& call) {
  try {
    return call();
  } catch (const Error& e) {
    set_error(e);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  }
  return nullptr;
}

/// While one lives, other threads of Python run.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() { PyEval_RestoreThread(state_); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

/// The number of a GPU; -1 for the host.
int ordinal_of(Device device) {
  return device.is_host() ? -1 : device.ordinal;
}

PyObject* none() {
  Py_INCREF(Py_None);
  return Py_None;
}

template <class T>
void destroy(PyObject* capsule) {
  auto* held = static_cast<T*>(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
  const Unlocked unlocked;  // a context waits for its runs
  delete held;
}

/// Null, with Python's error set, for another object.
Engine* engine_of(PyObject* capsule) {
  return static_cast<Engine*>(PyCapsule_GetPointer(capsule, engine_name));
}
Context* context_of(PyObject* capsule) {
  return static_cast<Context*>(PyCapsule_GetPointer(capsule, context_name));
}

/// A list of what `make` gives for each; steals those. Null on an error.
template <class Range, class Make>
PyObject* list_of(const Range& range, const Make& make) {
  PyObject* list = PyList_New(0);
  for (const auto& item : range) {
    PyObject* made = list == nullptr ? nullptr : make(item);
    if (made == nullptr || PyList_Append(list, made) != 0) {
      Py_XDECREF(made);
      Py_XDECREF(list);
      return nullptr;
    }
    Py_DECREF(made);
  }
  return list;
}

PyObject* numbers(const std::vector<int64_t>& values) {
  return list_of(values, [](int64_t value) { return PyLong_FromLongLong(value); });
}

PyObject* described(const std::vector<TensorInfo>& infos) {
  return list_of(infos, [](const TensorInfo& info) {
    return Py_BuildValue("(NNNNN)", text(info.name), text(to_string(info.dtype)), numbers(info.dims),
                         list_of(info.dim_names, text), text(info.type));
  });
}

PyObject* capsule_of_engine(std::unique_ptr<Engine> engine) {
  PyObject* capsule = PyCapsule_New(engine.get(), engine_name, destroy<Engine>);
  if (capsule != nullptr) engine.release();
  return capsule;
}

PyObject* load(PyObject*, PyObject* arguments) {
  const char *path = nullptr, *device = nullptr;
  if (PyArg_ParseTuple(arguments, "ss", &path, &device) == 0) return nullptr;
  return guarded([&] {
    std::unique_ptr<Engine> engine;
    {
      const Unlocked unlocked;
      engine = std::make_unique<Engine>(Engine::load(path, device));
    }
    return capsule_of_engine(std::move(engine));
  });
}

PyObject* load_bytes(PyObject*, PyObject* arguments) {
  PyObject* bytes = nullptr;
  const char* device = nullptr;
  char* begin = nullptr;
  Py_ssize_t size = 0;
  if (PyArg_ParseTuple(arguments, "Os", &bytes, &device) == 0) return nullptr;
  if (PyBytes_AsStringAndSize(bytes, &begin, &size) != 0) return nullptr;
  return guarded([&] {
    std::unique_ptr<Engine> engine;
    {
      const Unlocked unlocked;
      engine = std::make_unique<Engine>(
          Engine::load(std::as_bytes(std::span(static_cast<const char*>(begin), static_cast<size_t>(size))), device));
    }
    return capsule_of_engine(std::move(engine));
  });
}

PyObject* inputs(PyObject*, PyObject* capsule) {
  const Engine* engine = engine_of(capsule);
  return engine == nullptr ? nullptr : guarded([&] { return described(engine->inputs()); });
}

PyObject* outputs(PyObject*, PyObject* capsule) {
  const Engine* engine = engine_of(capsule);
  return engine == nullptr ? nullptr : guarded([&] { return described(engine->outputs()); });
}

PyObject* metadata(PyObject*, PyObject* capsule) {
  const Engine* engine = engine_of(capsule);
  if (engine == nullptr) return nullptr;
  return guarded([&] {
    return list_of(engine->metadata(),
                   [](const auto& entry) { return Py_BuildValue("(NN)", text(entry.first), text(entry.second)); });
  });
}

PyObject* device(PyObject*, PyObject* capsule) {
  const Engine* engine = engine_of(capsule);
  return engine == nullptr ? nullptr : PyLong_FromLong(ordinal_of(engine->device()));
}

PyObject* create_context(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  int threads = 0;
  if (PyArg_ParseTuple(arguments, "Oi", &capsule, &threads) == 0) return nullptr;
  const Engine* engine = engine_of(capsule);
  if (engine == nullptr) return nullptr;
  return guarded([&] {
    auto context = std::make_unique<Context>(engine->create_context(ContextOptions().set("threads", threads)));
    PyObject* made = PyCapsule_New(context.get(), context_name, destroy<Context>);
    if (made != nullptr) context.release();
    return made;
  });
}

PyObject* set_input(PyObject*, PyObject* arguments) {
  PyObject *capsule = nullptr, *tensor = nullptr;
  const char* name = nullptr;
  if (PyArg_ParseTuple(arguments, "OsO", &capsule, &name, &tensor) == 0) return nullptr;
  Context* context = context_of(capsule);
  if (context == nullptr) return nullptr;
  return guarded([&] {
    context->set_input(name, view_of_capsule(tensor, fmt::format("input '{}'", name), false));
    return none();
  });
}

PyObject* bind_output(PyObject*, PyObject* arguments) {
  PyObject *capsule = nullptr, *tensor = nullptr;
  const char *name = nullptr, *dtype = nullptr;
  if (PyArg_ParseTuple(arguments, "OssO", &capsule, &name, &dtype, &tensor) == 0) return nullptr;
  Context* context = context_of(capsule);
  if (context == nullptr) return nullptr;
  return guarded([&] {
    const Tensor view = view_of_capsule(tensor, fmt::format("output '{}'", name), true);
    if (*dtype != '\0' && to_string(view.dtype()) != dtype)
      throw Error(ErrorCode::invalid_argument, fmt::format("output '{}' is {}, it is bound to an array of {}", name,
                                                           dtype, camshaft::to_string(view.dtype())));
    context->bind_output(name, const_cast<std::byte*>(view.data()), view.bytes(), view.device());
    return none();
  });
}

PyObject* keep_output(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  const char* name = nullptr;
  int ordinal = -1;
  if (PyArg_ParseTuple(arguments, "Osi", &capsule, &name, &ordinal) == 0) return nullptr;
  Context* context = context_of(capsule);
  if (context == nullptr) return nullptr;
  return guarded([&] {
    context->bind_output(name, nullptr, 0, ordinal < 0 ? Device{} : Device{Device::cuda, ordinal});
    return none();
  });
}

PyObject* run(PyObject*, PyObject* capsule) {
  Context* context = context_of(capsule);
  if (context == nullptr) return nullptr;
  return guarded([&] {
    {
      const Unlocked unlocked;
      context->run();
    }
    return none();
  });
}

PyObject* enqueue(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  unsigned long long stream = 0;
  if (PyArg_ParseTuple(arguments, "OK", &capsule, &stream) == 0) return nullptr;
  Context* context = context_of(capsule);
  if (context == nullptr) return nullptr;
  return guarded([&] {
    {
      const Unlocked unlocked;
      context->enqueue(reinterpret_cast<void*>(stream));
    }
    return none();
  });
}

PyObject* synchronize(PyObject*, PyObject* capsule) {
  Context* context = context_of(capsule);
  if (context == nullptr) return nullptr;
  return guarded([&] {
    {
      const Unlocked unlocked;
      context->synchronize();
    }
    return none();
  });
}

PyObject* output_shape(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  const char* name = nullptr;
  if (PyArg_ParseTuple(arguments, "Os", &capsule, &name) == 0) return nullptr;
  Context* context = context_of(capsule);
  return context == nullptr ? nullptr : guarded([&] { return numbers(context->output_shape(name)); });
}

PyObject* output(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  const char* name = nullptr;
  if (PyArg_ParseTuple(arguments, "Os", &capsule, &name) == 0) return nullptr;
  const Context* context = context_of(capsule);
  if (context == nullptr) return nullptr;
  return guarded([&] {
    const Tensor tensor = context->output(name);
    return Py_BuildValue("(NNi)", text(to_string(tensor.dtype())), numbers(tensor.dims()), ordinal_of(tensor.device()));
  });
}

PyObject* output_dlpack(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  const char* name = nullptr;
  if (PyArg_ParseTuple(arguments, "Os", &capsule, &name) == 0) return nullptr;
  const Context* context = context_of(capsule);
  return context == nullptr ? nullptr : guarded([&] { return capsule_of(context->output(name), capsule); });
}

PyMethodDef functions[] = {
    {"load", load, METH_VARARGS, "load(path, device) -> engine"},
    {"load_bytes", load_bytes, METH_VARARGS, "load_bytes(bytes, device) -> engine"},
    {"inputs", inputs, METH_O, "inputs(engine) -> [(name, dtype, dims, dim names, type)]"},
    {"outputs", outputs, METH_O, "as inputs()"},
    {"metadata", metadata, METH_O, "metadata(engine) -> [(key, value)]"},
    {"device", device, METH_O, "device(engine) -> number of its GPU, -1 for the host"},
    {"create_context", create_context, METH_VARARGS, "create_context(engine, threads) -> context"},
    {"set_input", set_input, METH_VARARGS, "set_input(context, name, dlpack)"},
    {"bind_output", bind_output, METH_VARARGS, "bind_output(context, name, dtype, dlpack)"},
    {"keep_output", keep_output, METH_VARARGS, "keep_output(context, name, number of the GPU, -1 for the host)"},
    {"run", run, METH_O, "run(context)"},
    {"enqueue", enqueue, METH_VARARGS, "enqueue(context, stream)"},
    {"synchronize", synchronize, METH_O, "synchronize(context)"},
    {"output_shape", output_shape, METH_VARARGS, "output_shape(context, name) -> [size]"},
    {"output", output, METH_VARARGS, "output(context, name) -> (dtype, dims, number of the GPU, -1 for the host)"},
    {"output_dlpack", output_dlpack, METH_VARARGS, "output_dlpack(context, name) -> dlpack"},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "camshaft._native", nullptr, -1, functions, nullptr, nullptr, nullptr, nullptr};

}  // namespace

}  // namespace camshaft::python

PyMODINIT_FUNC PyInit__native() {
  using namespace camshaft::python;
  PyObject* module = PyModule_Create(&definition);
  if (module == nullptr) return nullptr;
  error_type = PyErr_NewExceptionWithDoc(
      "camshaft.Error",
      "What fails in the library. `code` says what kind of thing went wrong (\"invalid argument\", …).",
      PyExc_RuntimeError, nullptr);
  Py_XINCREF(error_type);
  if (error_type == nullptr || PyModule_AddObject(module, "Error", error_type) != 0) {
    Py_XDECREF(error_type);
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
