// Functions over communicators, and of contexts that meet over them.
#include <Python.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "beside.h"
#include "camshaft/cancellation.hpp"
#include "camshaft/communicator.hpp"
#include "camshaft/context.hpp"
#include "functions.h"
#include "objects.h"

namespace camshaft::python {

namespace {

constexpr const char* communicator_name = "camshaft.Communicator";

PyObject* communicator_capsule(Communicator communicator) {
  auto held = std::make_unique<Communicator>(std::move(communicator));
  PyObject* const made = checked(PyCapsule_New(held.get(), communicator_name, [](PyObject* freed) {
    delete static_cast<Communicator*>(PyCapsule_GetPointer(freed, communicator_name));
  }));
  static_cast<void>(held.release());
  return made;
}

PyObject* local_communicators(PyObject*, PyObject* arguments) {
  int size = 0;
  double timeout = 0;
  if (PyArg_ParseTuple(arguments, "id", &size, &timeout) == 0) return nullptr;
  return guarded([&] {
    return list_of(Communicator::local(size, timeout),
                   [](const Communicator& each) { return communicator_capsule(each); });
  });
}

// Of what waits until all ranks are there. Interrupted, it gives the rank back.
PyObject* joined_capsule(std::function<Communicator(const Cancellation&)> join) {
  const auto made = std::make_shared<std::optional<Communicator>>();
  const Cancellation cancellation;
  run_beside([made, cancellation, join = std::move(join)] { *made = join(cancellation); },
             [&] { cancellation.cancel(); });
  return communicator_capsule(**made);
}

PyObject* join_communicator(PyObject*, PyObject* arguments) {
  const char* name = nullptr;
  int rank = 0, size = 0;
  double timeout = 0;
  if (PyArg_ParseTuple(arguments, "siid", &name, &rank, &size, &timeout) == 0) return nullptr;
  return guarded([&] {
    return joined_capsule([named = std::string(name), rank, size, timeout](const Cancellation& cancellation) {
      return Communicator::join(named, rank, size, timeout, cancellation);
    });
  });
}

PyObject* environment_communicator(PyObject*, PyObject* arguments) {
  double timeout = 0;
  if (PyArg_ParseTuple(arguments, "d", &timeout) == 0) return nullptr;
  return guarded([&] {
    return joined_capsule(
        [timeout](const Cancellation& cancellation) { return Communicator::from_environment(timeout, cancellation); });
  });
}

PyObject* communicator_rank(PyObject*, PyObject* capsule) {
  return guarded([&] { return PyLong_FromLong(communicator_of(capsule).rank()); });
}

PyObject* communicator_size(PyObject*, PyObject* capsule) {
  return guarded([&] { return PyLong_FromLong(communicator_of(capsule).size()); });
}

PyObject* abort_communicator(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  const char* why = nullptr;
  if (PyArg_ParseTuple(arguments, "Os", &capsule, &why) == 0) return nullptr;
  return guarded([&] {
    communicator_of(capsule).abort(why);
    return none();
  });
}

PyObject* set_communicator(PyObject*, PyObject* arguments) {
  PyObject *context = nullptr, *communicator = nullptr;
  if (PyArg_ParseTuple(arguments, "OO", &context, &communicator) == 0) return nullptr;
  return guarded([&] {
    context_of(context).set_communicator(communicator_of(communicator));
    return none();
  });
}

}  // namespace

Communicator& communicator_of(PyObject* capsule) {
  auto* const communicator = static_cast<Communicator*>(PyCapsule_GetPointer(capsule, communicator_name));
  if (communicator == nullptr) throw PythonError();
  return *communicator;
}

PyMethodDef communicator_functions[] = {
    {"local_communicators", local_communicators, METH_VARARGS, "local_communicators(size, timeout) -> [communicator]"},
    {"join_communicator", join_communicator, METH_VARARGS,
     "join_communicator(name, rank, size, timeout) -> communicator, once all are there"},
    {"environment_communicator", environment_communicator, METH_VARARGS,
     "environment_communicator(timeout) -> communicator, by RANK, WORLD_SIZE and MASTER_PORT"},
    {"communicator_rank", communicator_rank, METH_O, "communicator_rank(communicator)"},
    {"communicator_size", communicator_size, METH_O, "communicator_size(communicator)"},
    {"abort_communicator", abort_communicator, METH_VARARGS, "abort_communicator(communicator, why)"},
    {"set_communicator", set_communicator, METH_VARARGS, "set_communicator(context, communicator)"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace camshaft::python
