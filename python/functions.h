// What the module camshaft._native has, by file.
#pragma once

#include <Python.h>

namespace camshaft::python {

/// Of the files of these names; each ends with an entry of nulls.
extern PyMethodDef engine_functions[];
extern PyMethodDef context_functions[];
extern PyMethodDef run_functions[];
extern PyMethodDef build_functions[];
extern PyMethodDef network_functions[];
extern PyMethodDef refit_functions[];
extern PyMethodDef plugin_functions[];
extern PyMethodDef llm_functions[];
extern PyMethodDef communicator_functions[];

}  // namespace camshaft::python
