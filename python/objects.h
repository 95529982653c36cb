// Between Python's objects and C++: errors, the lock, texts and lists.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "camshaft/communicator.hpp"
#include "camshaft/context.hpp"
#include "camshaft/engine.hpp"

namespace camshaft::python {

/// A reference that is given up when this ends. Python's lock is held then.
struct Release {
  void operator()(PyObject* object) const { Py_DECREF(object); }
};
using Reference = std::unique_ptr<PyObject, Release>;

/// Calls body(user); no exception may come out of it, see end_of_stack.cpp.
extern "C" void camshaft_end_of_stack(void (*body)(void*), void* user);

/// Gives what `call` gives, a number or a pointer: Python's own functions, which may wait for its lock, or run code
/// that does. Where Python ends meanwhile it ends the thread there (pthread_exit, before Python 3.14); nothing of C++
/// that is below is destroyed then: Python's objects cannot be given up any more. `call` has nothing that must be
/// destroyed.
template <class Call>
auto ending_there(const Call& call) {
  using Result = decltype(call());
  static_assert(std::is_trivial_v<Result>);
  struct Frame {
    const Call* call;
    Result result;
  } frame{&call, Result{}};
  camshaft_end_of_stack(
      [](void* user) {
        auto* of = static_cast<Frame*>(user);
        of->result = (*of->call)();
      },
      &frame);
  return frame.result;
}

/// Python's lock, on whatever thread, and giving it back.
inline PyGILState_STATE ensure_lock() {
  return ending_there([] { return PyGILState_Ensure(); });
}
inline void release_lock(PyGILState_STATE state) {
  ending_there([state] {
    PyGILState_Release(state);
    return 0;
  });
}
/// Gives up what a plugin or a caller owns, whose end may be code of Python's.
inline void give_up(PyObject* object) {
  ending_there([object] {
    Py_DECREF(object);
    return 0;
  });
}

/// While one lives, other threads of Python run.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() {
    ending_there([this] {
      PyEval_RestoreThread(state_);
      return 0;
    });
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

/// Python's error is set already: what guarded() makes of it is nothing more.
struct PythonError {};

/// `object`; throws PythonError for null.
PyObject* checked(PyObject* object);

/// Takes over the types of errors by the names of codes ("invalid argument", …), a dict. Python's error on false.
bool set_error_types(PyObject* types);
/// Raises the type of the error's code, with the message. `report`, JSON or null, is kept in it.
void set_error(const Error& error, PyObject* report = nullptr);
/// Raises what `thrown` is.
void set_error(const std::exception_ptr& thrown);

/// What `call` gives; null, with Python's error set, for what it throws.
template <class Call>
PyObject* guarded(Call&& call) {
  try {
    return call();
  } catch (const PythonError&) {
  } catch (...) {
    set_error(std::current_exception());
  }
  return nullptr;
}

/// A capsule that owns `value`, under a name that lives as long as the process.
template <class T>
PyObject* owning(std::unique_ptr<T> value, const char* name) {
  PyObject* capsule = PyCapsule_New(value.get(), name, [](PyObject* freed) {
    auto* held = static_cast<T*>(PyCapsule_GetPointer(freed, PyCapsule_GetName(freed)));
    const Unlocked unlocked;  // a context waits for its runs
    delete held;
  });
  if (capsule != nullptr) value.release();
  return capsule;
}

PyObject* none();
PyObject* text(std::string_view words);
/// Of Python's text. Throws PythonError.
std::string words_of(PyObject* text);
/// Of a sequence of integers. Throws PythonError.
std::vector<int64_t> numbers_of(PyObject* sequence);

/// visit(item) for each of a sequence. Throws PythonError.
template <class Visit>
void each(PyObject* sequence, const Visit& visit) {
  const Py_ssize_t count = PySequence_Size(sequence);
  if (count < 0) throw PythonError();
  for (Py_ssize_t i = 0; i < count; ++i) visit(Reference(checked(PySequence_GetItem(sequence, i))).get());
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
PyObject* numbers(const std::vector<int64_t>& values);
/// [(name, dtype, dims, dim names, type)]
PyObject* described(const std::vector<TensorInfo>& infos);

/// A capsule that owns the engine.
PyObject* capsule_of_engine(std::unique_ptr<Engine> engine);
PyObject* capsule_of_context(std::unique_ptr<Context> context);
PyObject* capsule_of_network(camshaft_network* network);
camshaft_network* network_of(PyObject* capsule);
/// What such a capsule holds. Throws PythonError for another object.
Engine& engine_of(PyObject* capsule);
Context& context_of(PyObject* capsule);
Communicator& communicator_of(PyObject* capsule);

}  // namespace camshaft::python
