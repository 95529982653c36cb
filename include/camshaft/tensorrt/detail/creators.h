// What camshaft.tensorrt calls: the creators of a library that the process has loaded, and plugins that programs make
// by them for layers of networks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "camshaft/tensorrt/detail/adapter.h"

extern "C" {
/// Creators and plugins are handles. What functions give is valid until the next call of the same thread. Fields are
/// bytes as Fields::stored() writes them.
struct camshaft_tensorrt_creators_table {
  size_t size;
  int32_t size_bytes;  ///< of a size in a field of kDIMS: 4 or 8
  int32_t (*count)();
  void* (*creator)(int32_t index);
  /// 0: the name, 1: the version, 2: the namespace.
  char const* (*text)(void* creator, int32_t which);
  /// Whether it is an IPluginCreatorV3One.
  int32_t (*is_v3)(void* creator);
  /// Names, types and lengths of the fields that it knows.
  char const* (*fields)(void* creator, size_t* size);
  /// Null where the creator makes none; error() then says why, where that is known.
  void* (*create)(void* creator, char const* name, char const* fields, size_t size, int32_t phase);
  void* (*deserialize)(void* creator, char const* name, void const* data, size_t size);
  char const* (*error)();
  int32_t (*outputs)(void* plugin);
  char const* (*stored)(void* plugin, size_t* size);
  void (*destroy)(void* plugin);
};
}

namespace nvinfer1 {
namespace camshaft_detail {

CAMSHAFT_TENSORRT_OWN inline std::string& last_text() {
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

inline IPluginCreatorInterface& creator_of(void* handle) {
  return *static_cast<IPluginCreatorInterface*>(handle);
}

inline camshaft_tensorrt_creators_table creators_table() {
  camshaft_tensorrt_creators_table table = {};
  table.size = sizeof table;
  table.size_bytes = sizeof(DimsSize);
  table.count = [] {
    int32_t count = 0;
    registry().getAllCreators(&count);
    return count;
  };
  table.creator = [](int32_t index) -> void* {
    int32_t count = 0;
    IPluginCreatorInterface* const* creators = registry().getAllCreators(&count);
    return index < count ? creators[index] : nullptr;
  };
  table.text = [](void* creator, int32_t which) -> char const* {
    last_text() = IPluginRegistry::names(&creator_of(creator))[static_cast<size_t>(which)];
    return last_text().c_str();
  };
  table.is_v3 = [](void* creator) -> int32_t { return creator_of(creator).camshaftV3() ? 1 : 0; };
  table.fields = [](void* creator, size_t* size) {
    IPluginCreatorInterface& of = creator_of(creator);
    return kept(named_fields(of.camshaftV3() ? of.camshaftV3()->getFieldNames() : of.camshaftV1()->getFieldNames()),
                size);
  };
  table.create = [](void* creator, char const* name, char const* fields, size_t size, int32_t phase) {
    return made_or_null([&] {
      Fields given;
      given.read(fields, size);
      return created(creator_of(creator), name, given.get(), static_cast<TensorRTPhase>(phase));
    });
  };
  table.deserialize = [](void* creator, char const* name, void const* data, size_t size) {
    return made_or_null([&] { return restored(creator_of(creator), name, data, size); });
  };
  table.error = [] { return static_cast<char const*>(last_text().c_str()); };
  table.outputs = [](void* plugin) { return static_cast<Plugin*>(plugin)->outputs(); };
  table.stored = [](void* plugin, size_t* size) { return kept(static_cast<Plugin*>(plugin)->stored(), size); };
  table.destroy = [](void* plugin) { delete static_cast<Plugin*>(plugin); };
  return table;
}

}  // namespace camshaft_detail
}  // namespace nvinfer1

extern "C" __attribute__((weak, used, visibility("default"))) camshaft_tensorrt_creators_table const*
camshaft_tensorrt_creators() {
  static const camshaft_tensorrt_creators_table table = nvinfer1::camshaft_detail::creators_table();
  return &table;
}
