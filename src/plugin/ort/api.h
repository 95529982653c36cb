// The functions that libraries of custom operators call: ours, behind ONNX Runtime's OrtApi.
#pragma once

#include <cstring>
#include <exception>
#include <string>
#include <string_view>

#include "plugin/ort/abi.h"
#include "plugin/ort/objects.h"

namespace camshaft::ort {

/// What libraries are given. Its table has every function that custom operators need; calling another one gives a
/// status that names it, and is noted.
const ApiBase& api_base();
/// The table that kernels are created with.
const Api& api();

/// What went wrong on this thread in a way that a library cannot hear of, or may not look at: calls of functions that
/// are not there, versions that are too new. take_complaint() gives the first since it was taken last; "" for none.
void complain(std::string message);
std::string take_complaint();

// Each fills in its part of the table.
void add_memory_functions(Api& table);
void add_tensor_functions(Api& table);
void add_kernel_functions(Api& table);
void add_attribute_functions(Api& table);
void add_operator_functions(Api& table);

template <class Function>
void put(Api& table, size_t slot, Function* function) {
  table.functions[slot] = reinterpret_cast<ApiFunction>(function);
}

inline Status* failure(StatusCode code, std::string message) {
  return new Status{code, std::move(message)};
}

/// Does `work`; what it throws becomes a status.
template <class Work>
Status* guarded(const Work& work) noexcept {
  try {
    return work();
  } catch (const std::exception& e) {
    return failure(invalid_argument, e.what());
  } catch (...) {
    return failure(failed, "something was thrown");
  }
}

/// The way that texts are given: *size with the final 0 is needed, and all that is asked where `out` is null.
inline Status* give_text(std::string_view text, char* out, size_t* size) {
  const size_t needed = text.size() + 1, room = *size;
  *size = needed;
  if (!out) return nullptr;
  if (room < needed) return failure(invalid_argument, "the buffer is too small for the text");
  std::memcpy(out, text.data(), text.size());
  out[text.size()] = 0;
  return nullptr;
}

/// A status of a library as its message, freed; "" for null.
std::string take(Status* status);

}  // namespace camshaft::ort
