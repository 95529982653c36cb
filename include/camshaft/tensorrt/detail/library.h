// What Camshaft calls: each creator as an operator of its interface for plugins, camshaft_plugin.h.
#pragma once

#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "camshaft/tensorrt/detail/creators.h"

namespace nvinfer1 {
namespace camshaft_detail CAMSHAFT_TENSORRT_OWN {

/// The table of a creator, and the texts that it points to.
struct Entry {
  std::string domain, name;
  camshaft_plugin_operator table;
};

inline void fill(Entry& entry, Registered& of) {
  entry.domain = of.space.empty() ? domain : std::string(domain) + "." + of.space;
  entry.name = of.name + "." + of.version;
  camshaft_plugin_operator& table = entry.table;
  table = {};
  table.size = sizeof table;
  table.domain = entry.domain.c_str();
  table.name = entry.name.c_str();
  table.version = of.version.c_str();
  table.user = &of;
  table.variant = of.variant.c_str();
  table.create = [](void* user, camshaft_plugin_node const* node, void** instance) -> int32_t {
    return guarded(node, [&] {
      int64_t const* indices = nullptr;
      const size_t count = node->integers(node, shape_inputs_attribute, &indices);
      *instance = new Operator(made_by(*static_cast<Registered*>(user), node), {indices, indices + count});
    });
  };
  table.destroy = [](void* instance) { delete static_cast<Operator*>(instance); };
  table.state = [](void* instance, void const** bytes, size_t* size) -> int32_t {
    std::string const& state = static_cast<Operator*>(instance)->state();
    *bytes = state.data();
    *size = state.size();
    return 0;
  };
  table.infer = [](void* instance, camshaft_plugin_shapes* shapes) -> int32_t {
    return guarded(shapes, [&] { static_cast<Operator*>(instance)->infer(shapes); });
  };
  table.count_tactics = [](void* instance, camshaft_plugin_run const* run) -> size_t {
    size_t count = 0;
    guarded(run, [&] { count = static_cast<Operator*>(instance)->count_tactics(run); });
    return count;
  };
  table.workspace = [](void* instance, camshaft_plugin_run const* run) -> size_t {
    size_t bytes = 0;
    guarded(run, [&] { bytes = static_cast<Operator*>(instance)->workspace(run); });
    return bytes;
  };
  const auto run = [](void* instance, camshaft_plugin_run const* call) -> int32_t {
    return guarded(call, [&] { static_cast<Operator*>(instance)->run(call); });
  };
  if (CAMSHAFT_TENSORRT_HOST) table.enqueue = run;
  if (CAMSHAFT_TENSORRT_CUDA) table.enqueue_cuda = run;
  table.cuda_text = CAMSHAFT_TENSORRT_CUDA ? packing_text : nullptr;
  table.cuda_is_not_recorded = !CAMSHAFT_TENSORRT_RECORDED;
}

/// How plugins find the logger.
struct OwnLogger : ILoggerFinder {
  ILogger* findLogger() override { return &logger(); }
};

/// What a library may export for those that load it while they run, in place of REGISTER_TENSORRT_PLUGIN; null where it
/// does not.
template <class Function>
Function* exported(char const* name) {
  return reinterpret_cast<Function*>(function_beside(&own_table(), name));
}

/// Registers what the library gives by its functions. That a creator is there already is no error: TensorRT's own
/// libraries have several such functions, for the same ones.
inline void take_creators() {
  static OwnLogger finder;
  if (auto* const set = exported<void(ILoggerFinder*)>("setLoggerFinder")) set(&finder);
  int32_t count = 0;
  auto* const all = exported<IPluginCreatorInterface* const*(int32_t&)>("getCreators");
  auto* const v1 = all ? nullptr : exported<IPluginCreator* const*(int32_t&)>("getPluginCreators");
  if (all) {
    IPluginCreatorInterface* const* const creators = all(count);
    for (int32_t i = 0; i < count; ++i) own_creators().add(registered_as(*creators[i], ""));
  } else if (v1) {
    IPluginCreator* const* const creators = v1(count);
    for (int32_t i = 0; i < count; ++i) own_creators().add(registered_as(*creators[i], ""));
  } else if (own_creators().get().empty()) {
    if (auto* const init = exported<bool(void*, char const*)>("initLibNvInferPlugins")) init(&logger(), "");
  }
}

/// The operators of the library, which are those of its creators at the time.
inline camshaft_plugin_library const* operators() {
  struct Given {
    std::vector<camshaft_plugin_operator const*> list;
    camshaft_plugin_library library;
  };
  struct State {
    std::recursive_mutex mutex;  // a function that registers creators may load its library
    bool is_first = true;
    std::map<Registered*, Entry> entries;
    std::deque<Given> given;  // whoever got one may be reading it
  };
  static auto& state = *new State;
  const std::lock_guard<std::recursive_mutex> lock(state.mutex);
  if (state.is_first) {
    state.is_first = false;
    try {
      take_creators();
    } catch (...) {
      state.is_first = true;
      throw;
    }
  }
  std::vector<camshaft_plugin_operator const*> list;
  for (Registered* of : own_creators().get()) {
    Entry& entry = state.entries[of];
    if (entry.name.empty()) fill(entry, *of);
    list.push_back(&entry.table);
  }
  for (Given& given : state.given)
    if (given.list == list) return &given.library;
  state.given.push_back({list, {}});
  Given& given = state.given.back();
  given.library = {sizeof(camshaft_plugin_library), CAMSHAFT_PLUGIN_ABI, given.list.size(), given.list.data()};
  return &given.library;
}

}  // namespace CAMSHAFT_TENSORRT_OWN
}  // namespace nvinfer1

extern "C" {
__attribute__((weak, used, visibility("default"))) camshaft_plugin_library const* camshaft_plugin_entry(uint32_t) {
  return nvinfer1::camshaft_detail::operators();
}
/// A library may register creators later, by a function of its own, or take them out.
__attribute__((weak, used, visibility("default"))) void camshaft_plugin_may_change() {}
}
