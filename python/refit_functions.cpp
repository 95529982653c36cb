// Functions over refitters.
#include <Python.h>
#include <fmt/format.h>

#include <memory>

#include "camshaft/refitter.hpp"
#include "functions.h"
#include "objects.h"
#include "tensors.h"

namespace camshaft::python {

namespace {

constexpr const char* capsule_name = "camshaft.refitter";

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
    {"refitter_set_file", set_file, METH_VARARGS, "refitter_set_file(refitter, path)"},
    {"refitter_set_lora", set_lora, METH_VARARGS, "refitter_set_lora(refitter, adapter, path)"},
    {"refit", refit, METH_VARARGS, "refit(refitter, threads)"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace camshaft::python
