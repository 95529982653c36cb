// Functions that make something of a model: engines, calibrations, other models.
#include <Python.h>
#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "caller_thread.h"
#include "camshaft/calibration.hpp"
#include "camshaft/engine.hpp"
#include "camshaft/options.hpp"
#include "functions.h"
#include "objects.h"
#include "tensors.h"

namespace camshaft::python {

namespace {

Reference item(PyObject* sequence, Py_ssize_t index) {
  return Reference(checked(PySequence_GetItem(sequence, index)));
}

template <class Options>
void set_option(Options& options, const std::string& name, PyObject* value) {
  if (PyBool_Check(value) != 0) {
    options.set(name, value == Py_True);
  } else if (PyLong_Check(value) != 0) {
    const long long number = PyLong_AsLongLong(value);
    if (number == -1 && PyErr_Occurred() != nullptr) throw PythonError();
    options.set(name, number);
  } else if (PyFloat_Check(value) != 0) {
    options.set(name, PyFloat_AsDouble(value));
  } else {
    options.set(name, words_of(value));
  }
}

/// [(input, smallest shape, optimum, largest)]
template <class Options>
void add_profile(Options& options, PyObject* ranges) {
  Profile profile;
  each(ranges, [&](PyObject* range) {
    const auto shape = [&](Py_ssize_t index) { return numbers_of(item(range, index).get()); };
    profile.inputs[words_of(item(range, 0).get())] = {shape(1), shape(2), shape(3)};
  });
  options.add_profile(profile);
}

/// Of [(name, what tensor_of() takes)], which keeps them.
NamedTensors tensors_of(PyObject* pairs, const char* what) {
  NamedTensors tensors;
  each(pairs, [&](PyObject* pair) {
    const std::string name = words_of(item(pair, 0).get());
    tensors.emplace_back(name, tensor_of(item(pair, 1).get(), {what, name}));
  });
  return tensors;
}

/// Tells a function of Python's how far the library is, ten times a second at most.
class Teller {
 public:
  Teller(CallerThread& caller, PyObject* function) : caller_(caller), function_(function) {}

  void operator()(std::string_view stage, double fraction) {
    {
      const std::lock_guard lock(mutex_);
      const auto now = std::chrono::steady_clock::now();
      if (stage == stage_ && now < next_) return;
      stage_ = stage;
      next_ = now + std::chrono::milliseconds(100);
    }
    caller_.call([&] {
      const Reference words(checked(text(stage)));
      Reference(checked(ending_there([&] { return PyObject_CallFunction(function_, "Od", words.get(), fraction); })));
    });
  }

 private:
  CallerThread& caller_;
  PyObject* function_;
  std::mutex mutex_;
  std::string stage_;
  std::chrono::steady_clock::time_point next_;
};

/// Options of a long call: [(name, value)], profiles, and a function that is told how far it is, or None.
template <class Options>
Options options_of(PyObject* values, PyObject* profiles, PyObject* progress, CallerThread& caller) {
  Options options;
  each(values, [&](PyObject* pair) { set_option(options, words_of(item(pair, 0).get()), item(pair, 1).get()); });
  each(profiles, [&](PyObject* ranges) { add_profile(options, ranges); });
  options.set_cancellation(caller.cancellation());
  if (progress != Py_None)
    options.set_progress([teller = std::make_shared<Teller>(caller, progress)](
                             std::string_view stage, double fraction) { (*teller)(stage, fraction); });
  return options;
}

/// Does `work` in a thread beside the caller's. `report` is what it gave, also where it failed.
void run_beside(CallerThread& caller, const Record& report, const std::function<void()>& work) {
  try {
    caller.run(work);
  } catch (const Error& error) {
    const Reference words(report.is_null() ? none() : checked(text(report.json())));
    set_error(error, words.get());
    throw PythonError();
  }
}

/// `sets`: a list of lists of names and tensors.
void add_inputs(BuildOptions& options, PyObject* sets) {
  const Py_ssize_t count = PyList_Size(sets);
  if (count < 0) throw PythonError();
  for (Py_ssize_t i = 0; i < count; ++i) {
    const NamedTensors inputs = tensors_of(PyList_GetItem(sets, i), "input");
    if (i == 0)
      options.set_inputs(inputs);
    else
      options.add_inputs(inputs);
  }
}

PyObject* build(PyObject*, PyObject* arguments) {
  PyObject *model = nullptr, *values = nullptr, *profiles = nullptr, *inputs = nullptr, *progress = nullptr;
  const char *name = nullptr, *folder = nullptr;
  if (PyArg_ParseTuple(arguments, "OssOOOO", &model, &name, &folder, &values, &profiles, &inputs, &progress) == 0)
    return nullptr;
  return guarded([&] {
    CallerThread caller;
    auto options = options_of<BuildOptions>(values, profiles, progress, caller);
    add_inputs(options, inputs);
    char* bytes = nullptr;
    Py_ssize_t size = 0;
    const bool is_path = PyUnicode_Check(model) != 0;
    const std::string path = is_path ? words_of(model) : "";
    camshaft_network* const network = PyCapsule_CheckExact(model) != 0 ? network_of(model) : nullptr;
    if (!is_path && network == nullptr && PyBytes_AsStringAndSize(model, &bytes, &size) != 0) throw PythonError();
    std::unique_ptr<Engine> engine;
    Record report;
    run_beside(caller, report, [&] {
      camshaft_engine* made = nullptr;
      camshaft_record* record = nullptr;
      const camshaft_status status =
          network != nullptr ? camshaft_build_network(network, options.handle(), &made, &record)
          : is_path          ? camshaft_build_file(path.c_str(), options.handle(), &made, &record)
                    : camshaft_build_memory(bytes, static_cast<size_t>(size), name, *folder == '\0' ? nullptr : folder,
                                            options.handle(), &made, &record);
      if (record != nullptr) report = Record(record);
      detail::check(status);
      engine = std::make_unique<Engine>(made);
    });
    return Py_BuildValue("(NN)", capsule_of_engine(std::move(engine)), text(report.json()));
  });
}

/// The batches of a calibration, from a function of Python's: [(name, DLPack capsule)] or None.
class Batches {
 public:
  Batches(CallerThread& caller, PyObject* next) : caller_(caller), next_(next) {}

  bool operator()(const std::vector<TensorInfo>& inputs, NamedTensors& batch) {
    bool has_more = false;
    caller_.call([&] {
      held_.reset();
      const Reference infos(checked(described(inputs)));
      held_.reset(checked(ending_there([&] { return PyObject_CallFunctionObjArgs(next_, infos.get(), nullptr); })));
      has_more = held_.get() != Py_None;
      if (has_more) batch = tensors_of(held_.get(), "calibration data of input");
    });
    return has_more;
  }

 private:
  CallerThread& caller_;
  PyObject* next_;
  Reference held_;  // what the tensors of the last batch are views of
};

PyObject* calibrate(PyObject*, PyObject* arguments) {
  const char *path = nullptr, *output = nullptr;
  PyObject *values = nullptr, *profiles = nullptr, *next = nullptr, *progress = nullptr;
  if (PyArg_ParseTuple(arguments, "ssOOOO", &path, &output, &values, &profiles, &next, &progress) == 0) return nullptr;
  return guarded([&] {
    CallerThread caller;
    const auto options = options_of<CalibrationOptions>(values, profiles, progress, caller);
    Batches batches(caller, next);
    Record report;
    run_beside(caller, report, [&] { report = detail::calibrate(path, options, std::ref(batches), output); });
    return text(report.json());
  });
}

/// A function that writes a model anew: simplify or quantize.
template <camshaft_status (*Write)(const char*, const char*, const camshaft_options*, int32_t, camshaft_record**)>
PyObject* written(PyObject*, PyObject* arguments) {
  const char *path = nullptr, *output = nullptr;
  PyObject *values = nullptr, *profiles = nullptr, *inputs = nullptr, *progress = nullptr;
  int external_data = 0;
  if (PyArg_ParseTuple(arguments, "ssOOOpO", &path, &output, &values, &profiles, &inputs, &external_data, &progress) ==
      0)
    return nullptr;
  return guarded([&] {
    CallerThread caller;
    auto options = options_of<BuildOptions>(values, profiles, progress, caller);
    add_inputs(options, inputs);
    Record report;
    run_beside(caller, report, [&] {
      camshaft_record* record = nullptr;
      const camshaft_status status = Write(path, output, options.handle(), external_data, &record);
      if (record != nullptr) report = Record(record);
      detail::check(status);
    });
    return text(report.json());
  });
}

/// The options of a build, a context or a calibration, by their number in the C interface.
PyObject* list_options(PyObject*, PyObject* arguments) {
  int what = 0;
  if (PyArg_ParseTuple(arguments, "i", &what) == 0) return nullptr;
  return guarded([&] {
    return text(detail::record_of([&](camshaft_record** r) { return camshaft_options_list(what, r); }).json());
  });
}

/// What an option of a build comes to beside others.
PyObject* get_option(PyObject*, PyObject* arguments) {
  PyObject* values = nullptr;
  const char* name = nullptr;
  if (PyArg_ParseTuple(arguments, "Os", &values, &name) == 0) return nullptr;
  return guarded([&] {
    BuildOptions options;
    each(values, [&](PyObject* pair) { set_option(options, words_of(item(pair, 0).get()), item(pair, 1).get()); });
    return text(options.get(name).json());
  });
}

PyObject* read_calibration(PyObject*, PyObject* arguments) {
  const char* path = nullptr;
  if (PyArg_ParseTuple(arguments, "s", &path) == 0) return nullptr;
  return guarded([&] {
    return text(detail::record_of([&](camshaft_record** r) { return camshaft_calibration_read(path, r); }).json());
  });
}

}  // namespace

PyMethodDef build_functions[] = {
    {"build", build, METH_VARARGS,
     "build(path, bytes or network, name, folder, options, profiles, inputs, progress) -> (engine, report as JSON)"},
    {"calibrate", calibrate, METH_VARARGS,
     "calibrate(path, output, options, profiles, next batch, progress) -> report as JSON"},
    {"simplify", written<camshaft_simplify_file>, METH_VARARGS,
     "simplify(path, output, options, profiles, inputs, external data, progress) -> report as JSON"},
    {"quantize", written<camshaft_quantize_file>, METH_VARARGS, "as simplify()"},
    {"list_options", list_options, METH_VARARGS, "list_options(1: build, 2: context, 3: calibration) -> JSON"},
    {"get_option", get_option, METH_VARARGS, "get_option([(name, value)] of a build, name) -> JSON"},
    {"read_calibration", read_calibration, METH_VARARGS, "read_calibration(path) -> JSON"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace camshaft::python
