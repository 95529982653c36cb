// Plugins: those of files, and operators that Python functions compute.
#include <Python.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "camshaft/camshaft_plugin.h"
#include "camshaft/load_plugin.hpp"
#include "camshaft/record.hpp"
#include "functions.h"
#include "objects.h"

namespace camshaft::python {

namespace {

/// Python's lock, on whatever thread the library calls.
class Locked {
 public:
  Locked() : is_first_(PyGILState_GetThisThreadState() == nullptr), state_(ensure_lock()) {}
  ~Locked() {
    // A thread of the library's own ends being one of Python's here, and gives up what the function kept for its thread
    // (threading.local). That is done before: what ends then may need the lock itself, and until Python 3.12.4 the
    // state of the thread would be freed twice.
    if (is_first_)
      if (PyObject* kept = PyThreadState_GetDict()) {
        ending_there([kept] {
          PyDict_Clear(kept);
          return 0;
        });
      }
    release_lock(state_);
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  bool is_first_;
  PyGILState_STATE state_;
};

/// Python's error as text, "ValueError: the rank must be 2"; there is none afterwards.
std::string take_error() {
  PyObject *type = nullptr, *value = nullptr, *at = nullptr;
  PyErr_Fetch(&type, &value, &at);
  PyErr_NormalizeException(&type, &value, &at);
  std::string message = "it raised something";
  if (value != nullptr) {
    PyObject* name = PyObject_GetAttrString(type, "__name__");
    PyObject* words = PyObject_Str(value);
    try {
      if (name != nullptr && words != nullptr) message = words_of(name) + ": " + words_of(words);
    } catch (const PythonError&) {
    }
    Py_XDECREF(name);
    Py_XDECREF(words);
  }
  PyErr_Clear();
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(at);
  return message;
}

/// Does `work`, which may throw PythonError, with Python's lock. Its failure is given to `fail`.
template <class Context, class Work>
int32_t locked(Context* context, const Work& work) {
  if (Py_IsInitialized() == 0) return context->fail(context, "Python has ended");
  const Locked lock;
  try {
    work();
    return 0;
  } catch (const PythonError&) {
    return context->fail(context, take_error().c_str());
  } catch (const std::exception& e) {
    return context->fail(context, e.what());
  }
}

/// What a method of the plugin gives, a new reference or null: it may run for as long as it likes.
template <class... Arguments>
PyObject* call_method(PyObject* object, const char* name, const char* format, Arguments... arguments) {
  return ending_there([&] { return PyObject_CallMethod(object, name, format, arguments...); });
}

/// An operator in Python: an object with create(attributes) -> instance, whose instances have
/// infer(operands, outputs) -> [(dtype, [dim])] and run(operands, results), with kernels launches(operands, results),
/// and compile(operands, outputs) where they are compiled ahead of time. One that fills streams itself has
/// count_tactics(operands, results), run(operands, results, tactic),
/// run_on_device(operands, results, workspace, stream, tactic) and workspace_bytes(operands, results).
struct PythonPlugin {
  std::string domain, name, version;
  PyObject* object = nullptr;
  std::vector<uint64_t> types;  // of each operand
  std::vector<int32_t> input_layouts, output_layouts;
  std::string kernels;  // as CUDA C++, or compiled; empty: it runs on the host
  camshaft_plugin_operator table = {};
};

PyObject* value_of(const camshaft_plugin_node* node, const char* name) {
  const int64_t* integers = nullptr;
  const double* reals = nullptr;
  const char* words = nullptr;
  size_t length = 0;
  PyObject* list = PyList_New(0);
  const auto append = [&](PyObject* item) {
    if (item == nullptr || PyList_Append(list, item) != 0) {
      Py_XDECREF(item);
      Py_DECREF(list);
      throw PythonError();
    }
    Py_DECREF(item);
  };
  if (list == nullptr) throw PythonError();
  switch (node->attribute_kind(node, name)) {
    case CAMSHAFT_PLUGIN_INTEGERS:
      for (size_t i = 0, count = node->integers(node, name, &integers); i < count; ++i)
        append(PyLong_FromLongLong(integers[i]));
      break;
    case CAMSHAFT_PLUGIN_NUMBERS:
      for (size_t i = 0, count = node->numbers(node, name, &reals); i < count; ++i)
        append(PyFloat_FromDouble(reals[i]));
      break;
    case CAMSHAFT_PLUGIN_TEXTS:
      for (size_t i = 0, count = node->texts(node, name, 0, &words, &length); i < count; ++i) {
        node->texts(node, name, i, &words, &length);
        append(PyUnicode_DecodeUTF8(words, static_cast<Py_ssize_t>(length), "surrogateescape"));
      }
      break;
    case CAMSHAFT_PLUGIN_TENSOR: {
      const camshaft_plugin_tensor* given = node->tensor(node, name);
      append(Py_BuildValue("(sNy#)", camshaft_dtype_name(given->dtype),
                           numbers({given->dims, given->dims + given->rank}), static_cast<const char*>(given->data),
                           static_cast<Py_ssize_t>(given->bytes)));
      break;
    }
    default:
      break;
  }
  return list;
}

int32_t create(void* user, const camshaft_plugin_node* node, void** instance) {
  return locked(node, [&] {
    const Reference attributes(checked(PyDict_New()));
    for (size_t i = 0; i < node->attribute_count; ++i) {
      const char* name = node->attribute_name(node, i);
      const Reference value(value_of(node, name));
      if (PyDict_SetItemString(attributes.get(), name, value.get()) != 0) throw PythonError();
    }
    auto* plugin = static_cast<PythonPlugin*>(user);
    *instance = checked(call_method(plugin->object, "create", "O", attributes.get()));
  });
}

void destroy(void* instance) {
  if (Py_IsInitialized() == 0) return;
  const Locked lock;
  give_up(static_cast<PyObject*>(instance));
}

/// (dtype, [dim as text], [known element] or None), or None for an operand that is left out.
PyObject* operand_of(camshaft_plugin_shapes* shapes, size_t input) {
  const camshaft_dtype dtype = shapes->dtype(shapes, input);
  if (dtype < 0) return none();
  Reference dims(checked(PyList_New(0)));
  for (size_t axis = 0; axis < shapes->rank(shapes, input); ++axis) {
    const Reference dim(checked(text(shapes->text(shapes, shapes->dim(shapes, input, axis)))));
    if (PyList_Append(dims.get(), dim.get()) != 0) throw PythonError();
  }
  const int64_t* values = nullptr;
  const size_t count = shapes->values(shapes, input, &values);
  PyObject* known = count == 0 ? none() : numbers({values, values + count});
  return checked(Py_BuildValue("(sNN)", camshaft_dtype_name(dtype), dims.release(), checked(known)));
}

Reference operands_of(camshaft_plugin_shapes* shapes) {
  Reference operands(checked(PyList_New(0)));
  for (size_t i = 0; i < shapes->input_count; ++i) {
    const Reference operand(operand_of(shapes, i));
    if (PyList_Append(operands.get(), operand.get()) != 0) throw PythonError();
  }
  return operands;
}

int32_t infer(void* instance, camshaft_plugin_shapes* shapes) {
  return locked(shapes, [&] {
    const Reference operands = operands_of(shapes);
    const Reference results(checked(call_method(static_cast<PyObject*>(instance), "infer", "On", operands.get(),
                                                static_cast<Py_ssize_t>(shapes->output_count))));
    const Py_ssize_t count = PySequence_Size(results.get());
    if (count < 0) throw PythonError();
    for (Py_ssize_t o = 0; o < count; ++o) {
      const Reference result(checked(PySequence_GetItem(results.get(), o)));
      const Reference type(checked(PySequence_GetItem(result.get(), 0)));
      const Reference dims(checked(PySequence_GetItem(result.get(), 1)));
      camshaft_dtype dtype = -1;
      detail::check(camshaft_dtype_parse(words_of(type.get()).c_str(), &dtype));
      std::vector<const camshaft_plugin_dim*> handles;
      const Py_ssize_t rank = PySequence_Size(dims.get());
      for (Py_ssize_t axis = 0; axis < rank; ++axis) {
        const Reference dim(checked(PySequence_GetItem(dims.get(), axis)));
        // None: a size that only running tells.
        handles.push_back(dim.get() == Py_None
                              ? shapes->symbol(shapes, static_cast<size_t>(o), static_cast<size_t>(axis))
                              : shapes->parse(shapes, words_of(dim.get()).c_str()));
      }
      shapes->set_output(shapes, static_cast<size_t>(o), dtype, handles.size(), handles.data());
    }
  });
}

/// (address, dtype, dims), valid during the call alone, the address 0 while only sizes are asked; None for what is left
/// out.
PyObject* array_of(const camshaft_plugin_tensor* operand) {
  if (operand == nullptr) return none();
  return checked(Py_BuildValue("(KsN)", static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(operand->data)),
                               camshaft_dtype_name(operand->dtype),
                               numbers({operand->dims, operand->dims + operand->rank})));
}

/// The same of a result; the dtype of one that has no memory yet, as only running tells its size.
PyObject* result_of(const camshaft_plugin_tensor* result) {
  return result != nullptr && result->data == nullptr ? checked(text(camshaft_dtype_name(result->dtype)))
                                                      : array_of(result);
}

Reference arrays_of(const camshaft_plugin_tensor* const* operands, size_t count,
                    PyObject* (*made)(const camshaft_plugin_tensor*) = array_of) {
  return Reference(checked(list_of(std::span(operands, count), made)));
}

/// A result of a size that only running tells: (output, dims, bytes).
void give_late(const camshaft_plugin_run* run, PyObject* entry) {
  const Reference index(checked(PySequence_GetItem(entry, 0))), sizes(checked(PySequence_GetItem(entry, 1)));
  const Reference bytes(checked(PySequence_GetItem(entry, 2)));
  char* from = nullptr;
  Py_ssize_t length = 0;
  if (PyBytes_AsStringAndSize(bytes.get(), &from, &length) != 0) throw PythonError();
  const Dims dims = numbers_of(sizes.get());
  const auto output = static_cast<size_t>(PyLong_AsLongLong(index.get()));
  int64_t bits = output < run->output_count ? camshaft_dtype_bits(run->outputs[output]->dtype) : 0;
  for (const int64_t size : dims) bits *= size;
  if ((bits + 7) / 8 != length)
    throw Error(ErrorCode::invalid_argument, "a result has other bytes than its shape rule says");
  void* to = run->resize_output(run, output, dims.size(), dims.data());
  if (to == nullptr)
    throw Error(ErrorCode::invalid_argument, "a result does not have as many axes as its shape rule says");
  if (length > 0) std::memcpy(to, from, static_cast<size_t>(length));
}

/// Gives the results that run() gave for those of sizes that only running tells.
void give_all_late(const camshaft_plugin_run* run, const Reference& late) {
  const Py_ssize_t count = PySequence_Size(late.get());
  if (count < 0) throw PythonError();
  for (Py_ssize_t i = 0; i < count; ++i) give_late(run, Reference(checked(PySequence_GetItem(late.get(), i))).get());
}

/// HAS_TACTICS: run() is told which one.
template <bool HAS_TACTICS>
int32_t enqueue(void* instance, const camshaft_plugin_run* run) {
  return locked(run, [&] {
    const Reference inputs = arrays_of(run->inputs, run->input_count);
    const Reference outputs = arrays_of(run->outputs, run->output_count, result_of);
    // What the format does not name is not looked at.
    give_all_late(run,
                  Reference(checked(call_method(static_cast<PyObject*>(instance), "run", HAS_TACTICS ? "OOn" : "OO",
                                                inputs.get(), outputs.get(), static_cast<Py_ssize_t>(run->tactic)))));
  });
}

/// Three sizes of blocks or threads.
void read_sizes(PyObject* sizes, uint32_t (&into)[3]) {
  const Dims given = numbers_of(sizes);
  for (size_t axis = 0; axis < 3; ++axis) {
    if (given.size() != 3 || given[axis] < 1 || given[axis] > INT32_MAX)
      throw Error(ErrorCode::invalid_argument, "a launch has three sizes of blocks and of threads, from 1 on");
    into[axis] = static_cast<uint32_t>(given[axis]);
  }
}

/// (kernel, blocks, threads, bytes of shared memory, [bytes of each argument])
void launch(const camshaft_plugin_run* run, PyObject* entry) {
  PyObject *blocks = nullptr, *threads = nullptr, *list = nullptr;
  const char* kernel = nullptr;
  unsigned shared_bytes = 0;
  if (PyArg_ParseTuple(entry, "sOOIO", &kernel, &blocks, &threads, &shared_bytes, &list) == 0) throw PythonError();
  uint32_t grid[3], block[3];
  read_sizes(blocks, grid);
  read_sizes(threads, block);
  std::vector<void*> addresses;
  for (Py_ssize_t i = 0, count = PyList_Size(list); i < count; ++i) {
    char* address = PyBytes_AsString(PyList_GetItem(list, i));
    if (address == nullptr) throw PythonError();
    addresses.push_back(address);
  }
  // The run fails by itself, with the driver's words.
  if (run->cuda->launch(run, kernel, grid, block, shared_bytes, addresses.data()) != 0)
    throw Error(ErrorCode::invalid_argument, std::string("the kernel ") + kernel + " cannot be launched");
}

int32_t enqueue_cuda(void* instance, const camshaft_plugin_run* run) {
  return locked(run, [&] {
    const Reference inputs = arrays_of(run->inputs, run->input_count);
    const Reference outputs = arrays_of(run->outputs, run->output_count);
    const Reference launches(
        checked(call_method(static_cast<PyObject*>(instance), "launches", "OO", inputs.get(), outputs.get())));
    const Py_ssize_t count = PySequence_Size(launches.get());
    if (count < 0) throw PythonError();
    for (Py_ssize_t i = 0; i < count; ++i) launch(run, Reference(checked(PySequence_GetItem(launches.get(), i))).get());
  });
}

/// Puts its work into the stream itself, with memory that it asked for.
int32_t enqueue_stream(void* instance, const camshaft_plugin_run* run) {
  return locked(run, [&] {
    const Reference inputs = arrays_of(run->inputs, run->input_count);
    const Reference outputs = arrays_of(run->outputs, run->output_count);
    const auto address = [](const void* at) {
      return static_cast<unsigned long long>(reinterpret_cast<uintptr_t>(at));
    };
    const Reference done(checked(call_method(static_cast<PyObject*>(instance), "run_on_device", "OOKKn", inputs.get(),
                                             outputs.get(), address(run->workspace), address(run->cuda->stream),
                                             static_cast<Py_ssize_t>(run->tactic))));
  });
}

/// What a method says of operands that have no memory yet: a number.
size_t asked_of_types(void* instance, const camshaft_plugin_run* run, const char* method) {
  size_t number = 0;
  locked(run, [&] {
    const Reference inputs = arrays_of(run->inputs, run->input_count);
    const Reference outputs = arrays_of(run->outputs, run->output_count);
    const Reference said(
        checked(call_method(static_cast<PyObject*>(instance), method, "OO", inputs.get(), outputs.get())));
    number = PyLong_AsSize_t(said.get());
    if (PyErr_Occurred() != nullptr) throw PythonError();
  });
  return number;
}

size_t count_tactics(void* instance, const camshaft_plugin_run* run) {
  return asked_of_types(instance, run, "count_tactics");
}

/// Of the GPU's memory; on the host it allocates its own.
size_t workspace_on_gpu(void* instance, const camshaft_plugin_run* run) {
  return run->cuda == nullptr ? 0 : asked_of_types(instance, run, "workspace_bytes");
}

/// The size of that text, kept by `shapes`.
const camshaft_plugin_dim* dim_of(camshaft_plugin_shapes* shapes, PyObject* words) {
  return shapes->parse(shapes, words_of(words).c_str());
}

/// (kernel, [7 sizes as texts: blocks, threads, bytes of shared memory], [(kind, index, size as text or None, bytes or
/// None, width)]), as camshaft_plugin_argument has them.
void add_launch(camshaft_plugin_kernels* kernels, PyObject* entry) {
  const char* kernel = nullptr;
  PyObject *sizes = nullptr, *list = nullptr;
  if (PyArg_ParseTuple(entry, "sOO", &kernel, &sizes, &list) == 0) throw PythonError();
  const camshaft_plugin_dim* dims[7];
  for (Py_ssize_t i = 0; i < 7; ++i)
    dims[i] = dim_of(kernels->shapes, Reference(checked(PySequence_GetItem(sizes, i))).get());
  std::vector<camshaft_plugin_argument> arguments;
  for (Py_ssize_t i = 0, count = PyList_Size(list); i < count; ++i) {
    camshaft_plugin_argument argument = {};
    int kind = 0;
    Py_ssize_t index = 0, width = 0, bytes = 0;
    PyObject* size = nullptr;
    const char* data = nullptr;
    if (PyArg_ParseTuple(PyList_GetItem(list, i), "inOz#n", &kind, &index, &size, &data, &bytes, &width) == 0)
      throw PythonError();
    argument.kind = kind;
    argument.index = static_cast<size_t>(index);
    argument.dim = size == Py_None ? nullptr : dim_of(kernels->shapes, size);
    argument.data = data;
    argument.bytes = static_cast<size_t>(data != nullptr ? bytes : width);
    arguments.push_back(argument);
  }
  kernels->add_launch(kernels, kernel, dims, dims + 3, dims[6], arguments.size(), arguments.data());
}

/// None, or (whether run() computes it, too, [(output, input that it lies in)], [(CUDA C++ or None, module or None,
/// [launch])]).
int32_t compile(void* instance, camshaft_plugin_kernels* kernels) {
  return locked(kernels, [&] {
    const Reference operands = operands_of(kernels->shapes);
    const Reference made(checked(call_method(static_cast<PyObject*>(instance), "compile", "On", operands.get(),
                                             static_cast<Py_ssize_t>(kernels->shapes->output_count))));
    if (made.get() == Py_None) return;
    int has_own_body = 0;
    PyObject *aliases = nullptr, *tactics = nullptr;
    if (PyArg_ParseTuple(made.get(), "pOO", &has_own_body, &aliases, &tactics) == 0) throw PythonError();
    kernels->has_own_body = has_own_body;
    for (Py_ssize_t i = 0, count = PyList_Size(aliases); i < count; ++i) {
      Py_ssize_t output = 0, input = 0;
      if (PyArg_ParseTuple(PyList_GetItem(aliases, i), "nn", &output, &input) == 0) throw PythonError();
      kernels->alias(kernels, static_cast<size_t>(output), static_cast<size_t>(input));
    }
    for (Py_ssize_t i = 0, count = PyList_Size(tactics); i < count; ++i) {
      const char *text = nullptr, *module = nullptr;
      Py_ssize_t bytes = 0;
      PyObject* launches = nullptr;
      if (PyArg_ParseTuple(PyList_GetItem(tactics, i), "zz#O", &text, &module, &bytes, &launches) == 0)
        throw PythonError();
      kernels->add_tactic(kernels, text, module, static_cast<size_t>(bytes));
      for (Py_ssize_t k = 0, most = PyList_Size(launches); k < most; ++k)
        add_launch(kernels, PyList_GetItem(launches, k));
    }
  });
}

PyObject* load(PyObject*, PyObject* arguments) {
  const char* source = nullptr;
  if (PyArg_ParseTuple(arguments, "s", &source) == 0) return nullptr;
  return guarded([&] {
    load_plugin(source);
    return none();
  });
}

PyObject* load_custom_ops(PyObject*, PyObject* arguments) {
  const char* library = nullptr;
  if (PyArg_ParseTuple(arguments, "s", &library) == 0) return nullptr;
  return guarded([&] {
    load_ort_custom_ops(library);
    return none();
  });
}

// A list of numbers; null: none.
std::vector<int32_t> layouts_of(PyObject* list) {
  std::vector<int32_t> layouts;
  const Py_ssize_t count = list == nullptr ? 0 : PySequence_Size(list);
  if (count < 0) throw PythonError();
  for (Py_ssize_t i = 0; i < count; ++i) {
    const Reference item(checked(PySequence_GetItem(list, i)));
    const long layout = PyLong_AsLong(item.get());
    if (layout == -1 && PyErr_Occurred() != nullptr) throw PythonError();
    layouts.push_back(static_cast<int32_t>(layout));
  }
  return layouts;
}

bool is_same(const PythonPlugin& a, const PythonPlugin& b) {
  const auto functions = [](const PythonPlugin& of) {
    return std::tuple(of.table.compile, of.table.enqueue, of.table.enqueue_cuda, of.table.cuda_is_not_recorded,
                      of.table.cuda_text == nullptr);
  };
  const auto rest = [](const PythonPlugin& of) {
    return std::tie(of.domain, of.name, of.version, of.object, of.types, of.input_layouts, of.output_layouts,
                    of.kernels);
  };
  return functions(a) == functions(b) && rest(a) == rest(b);
}

// Those that were registered, as long as the process runs; a program may register one again and again.
std::vector<std::unique_ptr<PythonPlugin>>& registered_operators() {
  static auto& all = *new std::vector<std::unique_ptr<PythonPlugin>>;
  return all;
}

PyObject* register_operator(PyObject*, PyObject* arguments) {
  const char *domain = nullptr, *name = nullptr, *version = nullptr, *source = nullptr, *hash = nullptr;
  const char *cuda_text = nullptr, *cuda_module = nullptr;
  Py_ssize_t module_bytes = 0;
  int is_compiled = 0, fills_streams = 0, is_recorded = 0;
  PyObject *object = nullptr, *types = nullptr, *input_layouts = nullptr, *output_layouts = nullptr;
  if (PyArg_ParseTuple(arguments, "sssssOO|zz#pppOO", &domain, &name, &version, &source, &hash, &object, &types,
                       &cuda_text, &cuda_module, &module_bytes, &is_compiled, &fills_streams, &is_recorded,
                       &input_layouts, &output_layouts) == 0)
    return nullptr;
  return guarded([&] {
    auto plugin = std::make_unique<PythonPlugin>();
    plugin->domain = domain;
    plugin->name = name;
    plugin->version = version;
    plugin->object = object;
    const Py_ssize_t count = PySequence_Size(types);
    if (count < 0) throw PythonError();
    for (Py_ssize_t i = 0; i < count; ++i) {
      const Reference allowed(checked(PySequence_GetItem(types, i)));
      uint64_t bits = 0;
      for (Py_ssize_t k = 0; k < PySequence_Size(allowed.get()); ++k) {
        camshaft_dtype dtype = -1;
        const Reference word(checked(PySequence_GetItem(allowed.get(), k)));
        detail::check(camshaft_dtype_parse(words_of(word.get()).c_str(), &dtype));
        bits |= uint64_t{1} << dtype;
      }
      plugin->types.push_back(bits);
    }
    camshaft_plugin_operator& table = plugin->table;
    table.size = sizeof table;
    table.domain = plugin->domain.c_str();
    table.name = plugin->name.c_str();
    table.version = plugin->version.c_str();
    table.user = plugin.get();
    table.types = plugin->types.data();
    table.type_count = plugin->types.size();
    plugin->input_layouts = layouts_of(input_layouts);
    plugin->output_layouts = layouts_of(output_layouts);
    table.input_layouts = plugin->input_layouts.data();
    table.input_layout_count = plugin->input_layouts.size();
    table.output_layouts = plugin->output_layouts.data();
    table.output_layout_count = plugin->output_layouts.size();
    table.create = create;
    table.destroy = destroy;
    table.infer = infer;
    table.enqueue = enqueue<false>;
    if (is_compiled != 0) table.compile = compile;
    if (fills_streams != 0) {
      table.enqueue = enqueue<true>;
      table.enqueue_cuda = enqueue_stream;
      table.count_tactics = count_tactics;
      table.workspace = workspace_on_gpu;
      table.cuda_is_not_recorded = is_recorded == 0;
    }
    if (cuda_text != nullptr) {
      plugin->kernels = cuda_text;
      table.cuda_text = plugin->kernels.c_str();
    } else if (cuda_module != nullptr) {
      plugin->kernels.assign(cuda_module, static_cast<size_t>(module_bytes));
      table.cuda_module = plugin->kernels.data();
      table.cuda_module_bytes = plugin->kernels.size();
    }
    if (!plugin->kernels.empty()) table.enqueue_cuda = enqueue_cuda;
    auto& all = registered_operators();
    const auto same = std::ranges::find_if(all, [&](const auto& known) { return is_same(*known, *plugin); });
    detail::check(camshaft_register_plugin(same == all.end() ? &table : &(*same)->table, source, hash));
    if (same == all.end()) {
      Py_INCREF(object);
      all.push_back(std::move(plugin));
    }
    return none();
  });
}

PyObject* unregister_operator(PyObject*, PyObject* arguments) {
  const char* name = nullptr;
  if (PyArg_ParseTuple(arguments, "s", &name) == 0) return nullptr;
  return guarded([&] {
    unregister_plugin(name);
    return none();
  });
}

PyObject* list(PyObject*, PyObject*) {
  return guarded([] {
    return text(detail::record_of([](camshaft_record** plugins) { return camshaft_list_plugins(plugins); }).json());
  });
}

PyObject* set_checks(PyObject*, PyObject* arguments) {
  int guards = 0, verify = 0;
  if (PyArg_ParseTuple(arguments, "pp", &guards, &verify) == 0) return nullptr;
  return guarded([&] {
    set_plugin_checks(guards != 0, verify != 0);
    return none();
  });
}

}  // namespace

PyMethodDef plugin_functions[] = {
    {"load_plugin", load, METH_VARARGS, "load_plugin(source)"},
    {"load_ort_custom_ops", load_custom_ops, METH_VARARGS, "load_ort_custom_ops(library)"},
    {"register_plugin", register_operator, METH_VARARGS,
     "register_plugin(domain, name, version, source, hash, object, [[dtype] of each operand], cuda_text, cuda_module, "
     "whether it is compiled ahead of time, whether it puts its own work into streams, whether that may be recorded, "
     "layouts of operands, layouts of results)"},
    {"unregister_plugin", unregister_operator, METH_VARARGS, "unregister_plugin(name)"},
    {"list_plugins", list, METH_NOARGS, "list_plugins() -> JSON"},
    {"set_plugin_checks", set_checks, METH_VARARGS, "set_plugin_checks(guards, verify)"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace camshaft::python
