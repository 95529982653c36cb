// What camshaft.tensorrt calls: the creators of a library that the process has loaded, and plugins that programs make
// by them for layers of networks.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "camshaft/tensorrt/detail/adapter.h"

namespace nvinfer1 {
namespace camshaft_detail CAMSHAFT_TENSORRT_OWN {

inline std::string& last_text() {
  static thread_local std::string text;
  return text;
}
inline char const* kept(std::string text, size_t* size) {
  last_text() = std::move(text);
  *size = last_text().size();
  return last_text().data();
}

/// The fields of a creator without their data, which nothing says to be there.
inline std::string named_fields(PluginFieldCollection const* collection) {
  std::vector<PluginField> fields;
  for (int32_t i = 0; collection && i < collection->nbFields; ++i) {
    fields.push_back(collection->fields[i]);
    fields.back().data = nullptr;
  }
  const PluginFieldCollection named{static_cast<int32_t>(fields.size()), fields.data()};
  return Fields::stored(&named);
}

template <class Make>
void* made_or_null(Make const& make) noexcept {
  last_text().clear();
  try {
    return make().release();
  } catch (std::exception const& e) {
    last_text() = e.what();
  } catch (...) {
    last_text() = "it threw something that is no std::exception";
  }
  return nullptr;
}

inline Registered& registered(void* handle) {
  return *static_cast<Registered*>(handle);
}

inline CreatorsTable creators_table() {
  CreatorsTable table = {};
  table.size = sizeof table;
  table.size_bytes = sizeof(DimsSize);
  table.interface_number = interface_number;
  table.list = [](int32_t state, void** creators, int32_t capacity) -> int32_t {
    const std::vector<Registered*> listed = own_creators().get(static_cast<CreatorState>(state));
    const auto count = static_cast<int32_t>(listed.size());
    std::copy_n(listed.begin(), std::min(count, capacity), creators);
    return count;
  };
  table.changes = [] { return own_creators().changes(); };
  table.pointer = [](void* creator) -> void* { return registered(creator).creator; };
  table.set_state = [](void* creator, int32_t state) -> int32_t {
    return own_creators().set_state(&registered(creator), static_cast<CreatorState>(state)) ? 1 : 0;
  };
  table.text = [](void* creator, int32_t which) -> char const* {
    Registered const& of = registered(creator);
    return (which == 0 ? of.name : which == 1 ? of.version : of.space).c_str();
  };
  table.is_v3 = [](void* creator) -> int32_t { return registered(creator).creator->camshaftV3() ? 1 : 0; };
  table.fields = [](void* creator, size_t* size) {
    IPluginCreatorInterface& of = *registered(creator).creator;
    return kept(named_fields(of.camshaftV3() ? of.camshaftV3()->getFieldNames() : of.camshaftV1()->getFieldNames()),
                size);
  };
  table.create = [](void* creator, char const* name, char const* fields, size_t size, int32_t phase) {
    return made_or_null([&] {
      Fields given;
      given.read(fields, size);
      return created(registered(creator), name, given.get(), static_cast<TensorRTPhase>(phase));
    });
  };
  table.deserialize = [](void* creator, char const* name, void const* data, size_t size) {
    return made_or_null([&] { return restored(registered(creator), name, data, size); });
  };
  table.error = [] { return static_cast<char const*>(last_text().c_str()); };
  table.outputs = [](void* plugin) { return static_cast<Plugin*>(plugin)->outputs(); };
  table.stored = [](void* plugin, size_t* size) { return kept(static_cast<Plugin*>(plugin)->stored(), size); };
  table.destroy = [](void* plugin) { delete static_cast<Plugin*>(plugin); };
  table.acquire = [](char const* key, void* resource) -> void* {
    return own_creators().acquire(text_or_empty(key), static_cast<IPluginResource*>(resource));
  };
  table.release = [](char const* key) { return own_creators().release(text_or_empty(key)); };
  table.lock = [] { own_creators().shared_mutex().lock(); };
  table.unlock = [] { own_creators().shared_mutex().unlock(); };
  return table;
}

inline CreatorsTable const& own_table() {
  static const CreatorsTable table = creators_table();
  return table;
}

}  // namespace CAMSHAFT_TENSORRT_OWN
}  // namespace nvinfer1

extern "C" __attribute__((weak, used, visibility("default"))) camshaft_tensorrt_creators_table const*
camshaft_tensorrt_creators() {
  return &nvinfer1::camshaft_detail::own_table();
}
