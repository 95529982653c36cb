// The places of functions in ONNX Runtime's OrtApi, by name.
#pragma once

#include <cstddef>
#include <string_view>

namespace camshaft::ort {

constexpr std::string_view slot_names[] = {
#include "plugin/ort/slots.inc"
};
constexpr size_t slot_count = sizeof slot_names / sizeof slot_names[0];
/// Beyond those that are known: of later versions.
constexpr size_t spare_slots = 32;

/// What a function gives: a status, nothing (it frees), a text, or something else.
enum class SlotKind { status, release, text, other };
constexpr SlotKind slot_kind(size_t slot) {
  if (slot >= slot_count) return SlotKind::status;
  switch (slot_names[slot].front()) {
    case '-':
      return SlotKind::release;
    case '$':
      return SlotKind::text;
    case '?':
      return SlotKind::other;
    default:
      return SlotKind::status;
  }
}
constexpr std::string_view slot_name(size_t slot) {
  if (slot >= slot_count) return "of a later version";
  return slot_kind(slot) == SlotKind::status ? slot_names[slot] : slot_names[slot].substr(1);
}

/// The place of a function; does not compile for a name that is none.
consteval size_t slot(std::string_view name) {
  for (size_t i = 0; i < slot_count; ++i)
    if (slot_name(i) == name) return i;
  throw "there is no such function";
}
// As others bind them by number.
static_assert(slot("ReleaseStatus") == 93 && slot("KernelContext_GetPreallocatedOutput") == 425);

}  // namespace camshaft::ort
