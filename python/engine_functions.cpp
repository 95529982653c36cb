// Functions over engines and contexts.
#include <Python.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "camshaft/context.hpp"
#include "camshaft/engine.hpp"
#include "functions.h"
#include "objects.h"
#include "tensors.h"

namespace camshaft::python {

namespace {

/// The number of a GPU; -1 for the host.
int ordinal_of(Device device) {
  return device.is_host() ? -1 : device.ordinal;
}

/// A capsule of what `load` gives, which runs without Python's lock.
template <class Load>
PyObject* loaded(const Load& load) {
  return guarded([&] {
    std::unique_ptr<Engine> engine;
    {
      const Unlocked unlocked;
      engine = std::make_unique<Engine>(load());
    }
    return capsule_of_engine(std::move(engine));
  });
}

LoadOptions load_options(const char* device, const char* budget) {
  LoadOptions options;
  options.set("device", device).set("weight-budget", budget);
  return options;
}

PyObject* load(PyObject*, PyObject* arguments) {
  const char *path = nullptr, *device = nullptr, *budget = nullptr;
  if (PyArg_ParseTuple(arguments, "sss", &path, &device, &budget) == 0) return nullptr;
  return loaded([&] { return Engine::load(path, load_options(device, budget)); });
}

PyObject* load_bytes(PyObject*, PyObject* arguments) {
  PyObject* bytes = nullptr;
  const char *device = nullptr, *budget = nullptr;
  char* begin = nullptr;
  Py_ssize_t size = 0;
  if (PyArg_ParseTuple(arguments, "Oss", &bytes, &device, &budget) == 0) return nullptr;
  if (PyBytes_AsStringAndSize(bytes, &begin, &size) != 0) return nullptr;
  const auto file = std::as_bytes(std::span(static_cast<const char*>(begin), static_cast<size_t>(size)));
  return loaded([&] { return Engine::load(file, load_options(device, budget)); });
}

PyObject* save(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  const char* path = nullptr;
  if (PyArg_ParseTuple(arguments, "Os", &capsule, &path) == 0) return nullptr;
  return guarded([&] {
    const Engine& engine = engine_of(capsule);
    {
      const Unlocked unlocked;
      engine.save(path);
    }
    return none();
  });
}

// weights: 1 or 0 with or without those that a refit can replace, -1 as the engine was built.
PyObject* save_bytes(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  int weights = -1;
  if (PyArg_ParseTuple(arguments, "Oi", &capsule, &weights) == 0) return nullptr;
  return guarded([&] {
    const Engine& engine = engine_of(capsule);
    std::vector<std::byte> file;
    {
      const Unlocked unlocked;
      file = weights < 0 ? engine.save() : engine.save_with(weights != 0);
    }
    return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(file.data()), static_cast<Py_ssize_t>(file.size()));
  });
}

PyObject* set_weight_budget(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  const char* budget = nullptr;
  if (PyArg_ParseTuple(arguments, "Os", &capsule, &budget) == 0) return nullptr;
  return guarded([&] {
    const Engine& engine = engine_of(capsule);
    {
      const Unlocked unlocked;
      engine.set_weight_budget(budget);
    }
    return none();
  });
}

PyObject* layers_onnx(PyObject*, PyObject* capsule) {
  return guarded([&] {
    const std::vector<std::byte> file = engine_of(capsule).layers_onnx();
    return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(file.data()), static_cast<Py_ssize_t>(file.size()));
  });
}

/// A record of the engine's as JSON.
template <camshaft_status (*Ask)(const camshaft_engine*, camshaft_record**)>
PyObject* asked(PyObject*, PyObject* capsule) {
  return guarded([&] {
    return text(detail::record_of([&](camshaft_record** r) { return Ask(engine_of(capsule).handle(), r); }).json());
  });
}

PyObject* inputs(PyObject*, PyObject* capsule) {
  return guarded([&] { return described(engine_of(capsule).inputs()); });
}

PyObject* outputs(PyObject*, PyObject* capsule) {
  return guarded([&] { return described(engine_of(capsule).outputs()); });
}

PyObject* metadata(PyObject*, PyObject* capsule) {
  return guarded([&] {
    const Engine& engine = engine_of(capsule);
    return list_of(engine.metadata(),
                   [](const auto& entry) { return Py_BuildValue("(NN)", text(entry.first), text(entry.second)); });
  });
}

PyObject* device(PyObject*, PyObject* capsule) {
  return guarded([&] { return PyLong_FromLong(ordinal_of(engine_of(capsule).device())); });
}

PyObject* create_context(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  int threads = 0;
  if (PyArg_ParseTuple(arguments, "Oi", &capsule, &threads) == 0) return nullptr;
  return guarded([&] {
    const Engine& engine = engine_of(capsule);
    std::unique_ptr<Context> made;
    {
      const Unlocked unlocked;  // a plugin of Python's may be asked on another thread
      made = std::make_unique<Context>(engine.create_context(ContextOptions().set("threads", threads)));
    }
    return capsule_of_context(std::move(made));
  });
}

PyObject* set_input(PyObject*, PyObject* arguments) {
  PyObject *capsule = nullptr, *tensor = nullptr;
  const char* name = nullptr;
  if (PyArg_ParseTuple(arguments, "OsO", &capsule, &name, &tensor) == 0) return nullptr;
  return guarded([&] {
    Context& context = context_of(capsule);
    context.set_input(name, tensor_of(tensor, {"input", name}));
    return none();
  });
}

PyObject* bind_output(PyObject*, PyObject* arguments) {
  PyObject *capsule = nullptr, *tensor = nullptr;
  const char *name = nullptr, *dtype = nullptr;
  if (PyArg_ParseTuple(arguments, "OssO", &capsule, &name, &dtype, &tensor) == 0) return nullptr;
  return guarded([&] {
    Context& context = context_of(capsule);
    const Tensor view = view_of_capsule(tensor, {"output", name}, true);
    if (*dtype != '\0' && to_string(view.dtype()) != dtype)
      throw Error(ErrorCode::invalid_argument, fmt::format("output '{}' is {}, it is bound to an array of {}", name,
                                                           dtype, camshaft::to_string(view.dtype())));
    context.bind_output(name, const_cast<std::byte*>(view.data()), view.bytes(), view.device());
    return none();
  });
}

PyObject* keep_output(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  const char* name = nullptr;
  int ordinal = -1;
  if (PyArg_ParseTuple(arguments, "Osi", &capsule, &name, &ordinal) == 0) return nullptr;
  return guarded([&] {
    Context& context = context_of(capsule);
    context.bind_output(name, nullptr, 0, ordinal < 0 ? Device{} : Device{Device::cuda, ordinal});
    return none();
  });
}

PyObject* run(PyObject*, PyObject* capsule) {
  return guarded([&] {
    Context& context = context_of(capsule);
    {
      const Unlocked unlocked;
      context.run();
    }
    return none();
  });
}

constexpr const char* places_name = "camshaft output places";

/// Where the outputs of a context lay after a run, and of what shapes they were.
struct OutputPlaces {
  struct Place {
    std::string name;
    const void* data = nullptr;
    Dims dims;
    bool is_known = false;
  };
  std::vector<Place> places;

  /// Looks again. Whether nothing is other than the last time.
  bool are_as_before(const Context& context) {
    bool are_same = true;
    for (Place& place : places) {
      const Tensor output = context.output(place.name);
      const camshaft_tensor* handle = output.handle();
      const void* data = camshaft_tensor_data(handle);
      const size_t rank = camshaft_tensor_rank(handle);
      const int64_t* dims = camshaft_tensor_dims(handle);
      if (place.is_known && place.data == data && std::equal(place.dims.begin(), place.dims.end(), dims, dims + rank))
        continue;
      place.data = data;
      place.dims.assign(dims, dims + rank);
      place.is_known = true;
      are_same = false;
    }
    return are_same;
  }
};

PyObject* output_places(PyObject*, PyObject* names) {
  return guarded([&]() -> PyObject* {
    auto made = std::make_unique<OutputPlaces>();
    each(names, [&](PyObject* name) { made->places.push_back({words_of(name), nullptr, {}, false}); });
    return owning(std::move(made), places_name);
  });
}

PyObject* run_in_place(PyObject*, PyObject* arguments) {
  PyObject *capsule = nullptr, *places_capsule = nullptr;
  if (PyArg_ParseTuple(arguments, "OO", &capsule, &places_capsule) == 0) return nullptr;
  return guarded([&] {
    Context& context = context_of(capsule);
    auto* places = static_cast<OutputPlaces*>(PyCapsule_GetPointer(places_capsule, places_name));
    if (places == nullptr) throw PythonError();
    bool are_as_before = false;
    {
      const Unlocked unlocked;
      context.run();
      are_as_before = places->are_as_before(context);
    }
    return PyBool_FromLong(are_as_before ? 1 : 0);
  });
}

PyObject* enqueue(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  unsigned long long stream = 0;
  if (PyArg_ParseTuple(arguments, "OK", &capsule, &stream) == 0) return nullptr;
  return guarded([&] {
    Context& context = context_of(capsule);
    {
      const Unlocked unlocked;
      context.enqueue(reinterpret_cast<void*>(stream));
    }
    return none();
  });
}

PyObject* synchronize(PyObject*, PyObject* capsule) {
  return guarded([&] {
    Context& context = context_of(capsule);
    {
      const Unlocked unlocked;
      context.synchronize();
    }
    return none();
  });
}

PyObject* output_shape(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  const char* name = nullptr;
  if (PyArg_ParseTuple(arguments, "Os", &capsule, &name) == 0) return nullptr;
  return guarded([&] { return numbers(context_of(capsule).output_shape(name)); });
}

PyObject* largest_output_shape(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  const char* name = nullptr;
  if (PyArg_ParseTuple(arguments, "Os", &capsule, &name) == 0) return nullptr;
  return guarded([&] { return numbers(context_of(capsule).largest_output_shape(name)); });
}

PyObject* output(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  const char* name = nullptr;
  if (PyArg_ParseTuple(arguments, "Os", &capsule, &name) == 0) return nullptr;
  return guarded([&] {
    const Context& context = context_of(capsule);
    const Tensor tensor = context.output(name);
    return Py_BuildValue("(NNi)", text(to_string(tensor.dtype())), numbers(tensor.dims()), ordinal_of(tensor.device()));
  });
}

PyObject* output_address(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  const char* name = nullptr;
  if (PyArg_ParseTuple(arguments, "Os", &capsule, &name) == 0) return nullptr;
  return guarded([&] { return PyLong_FromVoidPtr(const_cast<std::byte*>(context_of(capsule).output(name).data())); });
}

PyObject* output_value(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  const char* name = nullptr;
  if (PyArg_ParseTuple(arguments, "Os", &capsule, &name) == 0) return nullptr;
  return guarded([&] { return value_of(context_of(capsule).output(name)); });
}

PyObject* output_dlpack(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  const char* name = nullptr;
  if (PyArg_ParseTuple(arguments, "Os", &capsule, &name) == 0) return nullptr;
  return guarded([&] { return capsule_of(context_of(capsule).output(name), capsule); });
}

}  // namespace

PyMethodDef engine_functions[] = {
    {"load", load, METH_VARARGS, "load(path, device, weight budget) -> engine"},
    {"load_bytes", load_bytes, METH_VARARGS, "load_bytes(bytes, device, weight budget) -> engine"},
    {"set_weight_budget", set_weight_budget, METH_VARARGS, "set_weight_budget(engine, budget)"},
    {"weight_streaming", asked<camshaft_engine_weight_streaming>, METH_O, "weight_streaming(engine) -> JSON"},
    {"save", save, METH_VARARGS, "save(engine, path)"},
    {"save_bytes", save_bytes, METH_VARARGS, "save_bytes(engine, weights) -> bytes"},
    {"info", asked<camshaft_engine_info>, METH_O, "info(engine) -> JSON, as camshaft_engine_info says"},
    {"layers", asked<camshaft_engine_layers>, METH_O, "layers(engine) -> JSON"},
    {"layers_onnx", layers_onnx, METH_O, "layers_onnx(engine) -> bytes"},
    {"memory", asked<camshaft_engine_memory>, METH_O, "memory(engine) -> JSON"},
    {"inputs", inputs, METH_O, "inputs(engine) -> [(name, dtype, dims, dim names, type)]"},
    {"outputs", outputs, METH_O, "as inputs()"},
    {"metadata", metadata, METH_O, "metadata(engine) -> [(key, value)]"},
    {"device", device, METH_O, "device(engine) -> number of its GPU, -1 for the host"},
    {"create_context", create_context, METH_VARARGS, "create_context(engine, threads) -> context"},
    {"set_input", set_input, METH_VARARGS, "set_input(context, name, dlpack, or what tensor_of() in tensors.h takes)"},
    {"bind_output", bind_output, METH_VARARGS, "bind_output(context, name, dtype, dlpack)"},
    {"keep_output", keep_output, METH_VARARGS, "keep_output(context, name, number of the GPU, -1 for the host)"},
    {"run", run, METH_O, "run(context)"},
    {"output_places", output_places, METH_O, "output_places([name]) -> places, for run_in_place()"},
    {"run_in_place", run_in_place, METH_VARARGS,
     "run_in_place(context, places) -> whether the outputs lie where they did after its last call, in the same shapes"},
    {"enqueue", enqueue, METH_VARARGS, "enqueue(context, stream)"},
    {"synchronize", synchronize, METH_O, "synchronize(context)"},
    {"output_shape", output_shape, METH_VARARGS, "output_shape(context, name) -> [size]"},
    {"largest_output_shape", largest_output_shape, METH_VARARGS, "largest_output_shape(context, name) -> [size]"},
    {"output", output, METH_VARARGS, "output(context, name) -> (dtype, dims, number of the GPU, -1 for the host)"},
    {"output_address", output_address, METH_VARARGS, "output_address(context, name) -> number"},
    {"output_value", output_value, METH_VARARGS, "output_value(context, name) -> the form that set_input() takes"},
    {"output_dlpack", output_dlpack, METH_VARARGS, "output_dlpack(context, name) -> dlpack"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace camshaft::python
