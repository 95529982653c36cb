// Functions over networks: models that are made node by node.
#include <Python.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "camshaft/network.hpp"
#include "functions.h"
#include "objects.h"
#include "tensors.h"

namespace camshaft::python {

namespace {

/// What a call gives through its last pointer, as JSON.
template <class Call>
PyObject* told(const Call& call) {
  return text(detail::record_of(call).json());
}

/// Names as C has them, null for None. They live as long as this.
class Names {
 public:
  explicit Names(PyObject* sequence) {
    each(sequence, [&](PyObject* name) {
      pointers_.push_back(name == Py_None ? nullptr : words_.emplace_back(words_of(name)).c_str());
    });
  }
  const char* const* data() const { return pointers_.data(); }
  size_t size() const { return pointers_.size(); }

 private:
  std::deque<std::string> words_;  // which does not move them
  std::vector<const char*> pointers_;
};

PyObject* create(PyObject*, PyObject* arguments) {
  const char* name = nullptr;
  long long opset = 0;
  if (PyArg_ParseTuple(arguments, "sL", &name, &opset) == 0) return nullptr;
  return guarded([&] {
    camshaft_network* made = nullptr;
    detail::check(camshaft_network_create(name, opset, &made));
    return capsule_of_network(made);
  });
}

PyObject* subgraph(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  const char* name = nullptr;
  if (PyArg_ParseTuple(arguments, "Os", &capsule, &name) == 0) return nullptr;
  return guarded([&] {
    camshaft_network* made = nullptr;
    detail::check(camshaft_network_create_subgraph(network_of(capsule), name, &made));
    return capsule_of_network(made);
  });
}

PyObject* add_input(PyObject*, PyObject* arguments) {
  PyObject *capsule = nullptr, *dims = nullptr, *names = nullptr;
  const char *name = nullptr, *type = nullptr;
  if (PyArg_ParseTuple(arguments, "OssOO", &capsule, &name, &type, &dims, &names) == 0) return nullptr;
  return guarded([&] {
    const std::vector<int64_t> sizes = numbers_of(dims);
    const Names symbols(names);
    return told([&](camshaft_record** r) {
      return camshaft_network_add_input(network_of(capsule), name, type, sizes.size(), sizes.data(), symbols.data(), r);
    });
  });
}

/// The tensor that a constant or an attribute is: a list of bytes with its dims for strings, else a DLPack capsule,
/// whose elements are of the type `dtype` where that is not empty.
Tensor constant_of(PyObject* data, const char* dtype, PyObject* dims) {
  if (PyCapsule_CheckExact(data) == 0) return tensor_of_texts(data, numbers_of(dims));
  const Tensor view = view_of_capsule(data, {"the constant", {}}, false);
  if (*dtype == '\0') return view;
  return Tensor::view(parse_dtype(dtype), numbers_of(dims), view.data(), view.bytes());
}

/// Given up on whichever thread the library is on, unless Python has ended.
void release(void* object) {
  if (Py_IsInitialized() == 0) return;
  const PyGILState_STATE state = ensure_lock();
  give_up(static_cast<PyObject*>(object));
  release_lock(state);
}

PyObject* add_constant(PyObject*, PyObject* arguments) {
  PyObject *capsule = nullptr, *data = nullptr, *dims = nullptr;
  const char *name = nullptr, *dtype = nullptr;
  if (PyArg_ParseTuple(arguments, "OzOsO", &capsule, &name, &data, &dtype, &dims) == 0) return nullptr;
  return guarded([&] {
    const Tensor tensor = constant_of(data, dtype, dims);
    camshaft_network* const network = network_of(capsule);
    Py_INCREF(data);
    return told([&](camshaft_record** r) {
      return camshaft_network_add_constant(network, name, tensor.handle(), release, data, r);
    });
  });
}

/// Attributes from [(name, number of the type, value)], and what they point to.
class Attributes {
 public:
  explicit Attributes(PyObject* list) {
    each(list, [&](PyObject* triple) {
      PyObject* value = nullptr;
      const char* name = nullptr;
      camshaft_attribute attribute = {};
      if (PyArg_ParseTuple(triple, "siO", &name, &attribute.type, &value) == 0) throw PythonError();
      attribute.name = texts_.emplace_back(name).c_str();
      take(attribute, value);
      attributes_.push_back(attribute);
    });
  }
  const camshaft_attribute* data() const { return attributes_.data(); }
  size_t size() const { return attributes_.size(); }

 private:
  void take(camshaft_attribute& to, PyObject* value) {
    to.count = 1;
    switch (to.type) {
      case CAMSHAFT_ATTRIBUTE_FLOAT:
      case CAMSHAFT_ATTRIBUTE_FLOATS: {
        auto& list = floats_.emplace_back();
        each(value, [&](PyObject* item) {
          list.push_back(static_cast<float>(PyFloat_AsDouble(item)));
          if (PyErr_Occurred() != nullptr) throw PythonError();
        });
        to.floats = list.data();
        to.count = list.size();
        break;
      }
      case CAMSHAFT_ATTRIBUTE_INTEGER:
      case CAMSHAFT_ATTRIBUTE_INTEGERS: {
        const auto& list = integers_.emplace_back(numbers_of(value));
        to.integers = list.data();
        to.count = list.size();
        break;
      }
      case CAMSHAFT_ATTRIBUTE_TEXT:
      case CAMSHAFT_ATTRIBUTE_TEXTS:
      case CAMSHAFT_ATTRIBUTE_TYPE: {
        const Names& list = names_.emplace_back(value);
        to.texts = list.data();
        to.count = list.size();
        break;
      }
      case CAMSHAFT_ATTRIBUTE_TENSOR: {
        PyObject *data = nullptr, *dims = nullptr;
        const char* dtype = nullptr;
        if (PyArg_ParseTuple(value, "OsO", &data, &dtype, &dims) == 0) throw PythonError();
        to.tensors = &handles_.emplace_back(tensors_.emplace_back(constant_of(data, dtype, dims)).handle());
        break;
      }
      case CAMSHAFT_ATTRIBUTE_GRAPH:
        to.graphs = &graphs_.emplace_back(network_of(value));
        break;
      default:
        break;
    }
  }

  // Which do not move what they hold.
  std::deque<std::string> texts_;
  std::deque<std::vector<float>> floats_;
  std::deque<std::vector<int64_t>> integers_;
  std::deque<Names> names_;
  std::deque<Tensor> tensors_;
  std::deque<const camshaft_tensor*> handles_;
  std::deque<const camshaft_network*> graphs_;
  std::vector<camshaft_attribute> attributes_;
};

PyObject* add_node(PyObject*, PyObject* arguments) {
  PyObject *capsule = nullptr, *inputs = nullptr, *attributes = nullptr, *outputs = nullptr;
  const char *op_type = nullptr, *domain = nullptr, *name = nullptr;
  if (PyArg_ParseTuple(arguments, "OsszOOO", &capsule, &op_type, &domain, &name, &inputs, &attributes, &outputs) == 0)
    return nullptr;
  return guarded([&] {
    const Names read(inputs), made(outputs);
    const Attributes given(attributes);
    return told([&](camshaft_record** r) {
      return camshaft_network_add_node(network_of(capsule), op_type, domain, name, read.data(), read.size(),
                                       given.data(), given.size(), made.data(), made.size(), r);
    });
  });
}

PyObject* mark_output(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  const char *value = nullptr, *name = nullptr;
  if (PyArg_ParseTuple(arguments, "Osz", &capsule, &value, &name) == 0) return nullptr;
  return guarded([&] {
    detail::check(camshaft_network_mark_output(network_of(capsule), value, name));
    return none();
  });
}

PyObject* schema(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  const char *domain = nullptr, *op_type = nullptr;
  if (PyArg_ParseTuple(arguments, "Oss", &capsule, &domain, &op_type) == 0) return nullptr;
  return guarded([&] {
    return told(
        [&](camshaft_record** r) { return camshaft_network_operator(network_of(capsule), domain, op_type, r); });
  });
}

PyObject* save(PyObject*, PyObject* arguments) {
  PyObject* capsule = nullptr;
  const char* path = nullptr;
  int external_data = 0;
  if (PyArg_ParseTuple(arguments, "Osp", &capsule, &path, &external_data) == 0) return nullptr;
  return guarded([&] {
    detail::check(camshaft_network_save_file(network_of(capsule), path, external_data));
    return none();
  });
}

PyObject* to_bytes(PyObject*, PyObject* capsule) {
  return guarded([&] {
    void* data = nullptr;
    size_t bytes = 0;
    detail::check(camshaft_network_save_memory(network_of(capsule), &data, &bytes));
    const std::unique_ptr<void, void (*)(void*)> held(data, camshaft_free);
    return PyBytes_FromStringAndSize(static_cast<const char*>(data), static_cast<Py_ssize_t>(bytes));
  });
}

PyObject* operators(PyObject*, PyObject*) {
  return guarded([] { return told(camshaft_list_operators); });
}

}  // namespace

PyMethodDef network_functions[] = {
    {"network_create", create, METH_VARARGS, "network_create(name, opset, 0 for the newest) -> network"},
    {"network_subgraph", subgraph, METH_VARARGS, "network_subgraph(network, name) -> network"},
    {"network_input", add_input, METH_VARARGS, "network_input(network, name, type, dims, names) -> value as JSON"},
    {"network_constant", add_constant, METH_VARARGS,
     "network_constant(network, name or None, dlpack or [bytes], dtype or '', dims) -> value as JSON"},
    {"network_node", add_node, METH_VARARGS,
     "network_node(network, operator, domain, name or None, inputs, [(attribute, type, value)], outputs) -> [value]"},
    {"network_output", mark_output, METH_VARARGS, "network_output(network, value, name or None)"},
    {"network_operator", schema, METH_VARARGS, "network_operator(network, domain, operator) -> JSON"},
    {"network_save", save, METH_VARARGS, "network_save(network, path, external data)"},
    {"network_bytes", to_bytes, METH_O, "network_bytes(network) -> bytes"},
    {"list_operators", operators, METH_NOARGS, "list_operators() -> JSON"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace camshaft::python
