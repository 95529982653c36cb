#include "api/record.h"

#include "api/status.h"

using nlohmann::json;

// A record is the value itself: those that it holds need no handles of their own.
namespace {

const json& value_of(const camshaft_record* record) {
  return *reinterpret_cast<const json*>(record);
}
const camshaft_record* record_of(const json& value) {
  return reinterpret_cast<const camshaft_record*>(&value);
}

}  // namespace

camshaft_record* camshaft::api::new_record(json value) {
  return reinterpret_cast<camshaft_record*>(new json(std::move(value)));
}

int32_t camshaft_record_kind(const camshaft_record* record) {
  if (record == nullptr) return CAMSHAFT_RECORD_NULL;
  switch (value_of(record).type()) {
    case json::value_t::boolean:
      return CAMSHAFT_RECORD_BOOLEAN;
    case json::value_t::number_integer:
    case json::value_t::number_unsigned:
      return CAMSHAFT_RECORD_INTEGER;
    case json::value_t::number_float:
      return CAMSHAFT_RECORD_NUMBER;
    case json::value_t::string:
      return CAMSHAFT_RECORD_TEXT;
    case json::value_t::array:
      return CAMSHAFT_RECORD_LIST;
    case json::value_t::object:
      return CAMSHAFT_RECORD_OBJECT;
    default:
      return CAMSHAFT_RECORD_NULL;
  }
}

size_t camshaft_record_size(const camshaft_record* record) {
  return record != nullptr && value_of(record).is_structured() ? value_of(record).size() : 0;
}

const camshaft_record* camshaft_record_at(const camshaft_record* record, size_t index) {
  if (index >= camshaft_record_size(record)) return nullptr;
  const json& value = value_of(record);
  if (value.is_array()) return record_of(value[index]);
  auto it = value.begin();
  std::advance(it, static_cast<std::ptrdiff_t>(index));
  return record_of(*it);
}

const char* camshaft_record_key(const camshaft_record* record, size_t index) {
  if (index >= camshaft_record_size(record) || !value_of(record).is_object()) return nullptr;
  auto it = value_of(record).begin();
  std::advance(it, static_cast<std::ptrdiff_t>(index));
  return it.key().c_str();
}

const camshaft_record* camshaft_record_get(const camshaft_record* record, const char* key) {
  if (record == nullptr || key == nullptr || !value_of(record).is_object()) return nullptr;
  const auto it = value_of(record).find(key);
  return it == value_of(record).end() ? nullptr : record_of(*it);
}

const char* camshaft_record_text(const camshaft_record* record, size_t* length) {
  const auto* text = record == nullptr ? nullptr : value_of(record).get_ptr<const json::string_t*>();
  if (length != nullptr) *length = text == nullptr ? 0 : text->size();
  return text == nullptr ? "" : text->c_str();
}

int64_t camshaft_record_integer(const camshaft_record* record) {
  return record != nullptr && value_of(record).is_number_integer() ? value_of(record).get<int64_t>() : 0;
}

double camshaft_record_number(const camshaft_record* record) {
  return record != nullptr && value_of(record).is_number() ? value_of(record).get<double>() : 0;
}

int32_t camshaft_record_boolean(const camshaft_record* record) {
  return record != nullptr && value_of(record).is_boolean() && value_of(record).get<bool>() ? 1 : 0;
}

camshaft_status camshaft_record_json(const camshaft_record* record, int32_t indent, camshaft_record** text) {
  using namespace camshaft::api;
  return guarded([&] {
    const json& value = value_of(given(record, "record"));
    give(text, "text", [&] { return new_record(value.dump(indent, ' ', false, json::error_handler_t::replace)); });
  });
}

void camshaft_record_free(camshaft_record* record) {
  delete reinterpret_cast<json*>(record);
}
