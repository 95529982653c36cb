// The Python module camshaft._native: functions over capsules, which the modules in python/camshaft make classes of.
//
// Of Python's C interface only the stable part is used, so that one file serves every Python from 3.9 on.
#include <Python.h>

#include "camshaft/camshaft.h"
#include "functions.h"
#include "objects.h"

namespace camshaft::python {

namespace {

PyObject* set_error_types(PyObject*, PyObject* types) {
  return camshaft::python::set_error_types(types) ? none() : nullptr;
}

PyObject* version(PyObject*, PyObject*) {
  return text(camshaft_version());
}

PyMethodDef module_functions[] = {
    {"set_error_types", set_error_types, METH_O, "set_error_types({name of a code: type})"},
    {"version", version, METH_NOARGS, "version() -> text"},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "camshaft._native", nullptr, -1, module_functions, nullptr, nullptr, nullptr, nullptr};

}  // namespace

}  // namespace camshaft::python

PyMODINIT_FUNC PyInit__native() {
  using namespace camshaft::python;
  Reference module(PyModule_Create(&definition));
  if (!module) return nullptr;
  for (PyMethodDef* functions : {engine_functions, context_functions, run_functions, build_functions, network_functions,
                                 plugin_functions, refit_functions, llm_functions, communicator_functions})
    if (PyModule_AddFunctions(module.get(), functions) != 0) return nullptr;
  return module.release();
}
