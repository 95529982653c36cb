#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "plugin/ort/api.h"

namespace camshaft::ort {

namespace {

thread_local std::string first_complaint;

// In place of a function that is not there. Its arguments are not looked at; the caller cleans up what it passed.
template <size_t slot>
void* missing_function() noexcept {
  if constexpr (slot_kind(slot) == SlotKind::release) return nullptr;  // there is nothing of the kind to free
  try {
    const std::string message = fmt::format(
        "it calls OrtApi::{} (function {} of the table), which Camshaft does not have", slot_name(slot), slot);
    complain(message);
    if constexpr (slot_kind(slot) == SlotKind::text) return const_cast<char*>("");
    if constexpr (slot_kind(slot) == SlotKind::status) return failure(not_implemented, message);
  } catch (const std::exception&) {
  }
  return nullptr;
}

template <size_t... slots>
void fill_with_missing(Api& table, std::index_sequence<slots...>) {
  // An array, not a fold: clang nests no more than 256 operators.
  const ApiFunction missing[] = {reinterpret_cast<ApiFunction>(&missing_function<slots>)...};
  std::copy(std::begin(missing), std::end(missing), std::begin(table.functions));
}

Api whole_table() {
  Api table = {};
  fill_with_missing(table, std::make_index_sequence<slot_count + spare_slots>());
  add_memory_functions(table);
  add_tensor_functions(table);
  add_kernel_functions(table);
  add_attribute_functions(table);
  add_operator_functions(table);
  return table;
}

// In a table for a version that is too new nothing but statuses works: what libraries do with a null pointer, which
// ONNX Runtime gives them, is to call through it.
template <int>
Status* too_new() noexcept {
  return failure(not_implemented, "this version of the interface is not there");
}

Api table_of_nothing() {
  Api table = {};
  for (size_t i = 0; i < slot_count + spare_slots; ++i)
    if (slot_kind(i) == SlotKind::status) {
      table.functions[i] = reinterpret_cast<ApiFunction>(&too_new<0>);
    } else {
      table.functions[i] = api().functions[i];
    }
  return table;
}

const Api* get_api(uint32_t version) {
  if (version >= 1 && version <= newest_api) return &api();
  complain(
      fmt::format("it asks for version {} of ONNX Runtime's interface (ORT_API_VERSION), and versions up to {} "
                  "are there: compile it with the headers of ONNX Runtime 1.{}",
                  version, newest_api, newest_api));
  static const Api nothing = table_of_nothing();
  return &nothing;
}

// Libraries read the number in the middle.
const char* version_text() {
  static const std::string text = fmt::format("1.{}.0", newest_api);
  return text.c_str();
}

}  // namespace

void complain(std::string message) {
  if (first_complaint.empty()) first_complaint = std::move(message);
}

std::string take_complaint() {
  return std::exchange(first_complaint, std::string());
}

std::string take(Status* status) {
  if (!status) return "";
  std::string message = status->message.empty() ? "it gives a status without a message" : status->message;
  delete status;
  return message;
}

const Api& api() {
  static const Api table = whole_table();
  return table;
}

const ApiBase& api_base() {
  static const ApiBase base{get_api, version_text};
  return base;
}

}  // namespace camshaft::ort
