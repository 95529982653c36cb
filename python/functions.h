// What the module camshaft._native has, by file.
#pragma once

#include <Python.h>

namespace camshaft::python {

/// Of engine_functions.cpp, context_functions.cpp and build_functions.cpp; each ends with an entry of nulls.
extern PyMethodDef engine_functions[];
extern PyMethodDef context_functions[];
extern PyMethodDef build_functions[];

}  // namespace camshaft::python
