// Exceptions of the library as codes of the C interface.
#pragma once

#include <cstddef>
#include <exception>
#include <span>
#include <string>

#include "base/error.h"
#include "camshaft/camshaft.h"

namespace camshaft::api {

/// Keeps the message for camshaft_error_message() on this thread; returns the code.
camshaft_status fail(ErrorCode code, const char* message) noexcept;
/// The same of any exception of the library, or of C++'s.
camshaft_status fail(const std::exception_ptr& exception) noexcept;

/// CAMSHAFT_OK once `call` has returned; what it throws as a code.
template <class Call>
camshaft_status guarded(Call&& call) noexcept {
  try {
    call();
    return CAMSHAFT_OK;
  } catch (...) {
    return fail(std::current_exception());
  }
}

/// The pointer; throws Error(invalid_argument) that names the argument when it is null.
template <class T>
T* given(T* pointer, const char* argument) {
  if (pointer == nullptr)
    throw Error(ErrorCode::invalid_argument, std::string("the argument '") + argument + "' is a null pointer");
  return pointer;
}

/// Stores what `make` makes, a new handle. The pointer is looked at first, so that none is lost when it is null.
template <class T, class Make>
void give(T** pointer, const char* argument, const Make& make) {
  T** const place = given(pointer, argument);
  *place = make();
}

/// Copies the bytes to memory that camshaft_free() frees. Both pointers are looked at first.
void give_bytes(std::span<const std::byte> from, void** data, size_t* bytes);

}  // namespace camshaft::api
