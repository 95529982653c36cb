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
/// does not. `function` is where its name leads, which may be to another library.
template <class Function>
Function* if_own(Function* function) {
  return function && same_library(reinterpret_cast<void*>(function), const_cast<CreatorsTable*>(&own_table()))
             ? function
             : nullptr;
}

}  // namespace CAMSHAFT_TENSORRT_OWN
}  // namespace nvinfer1

extern "C" {
__attribute__((weak)) void setLoggerFinder(nvinfer1::ILoggerFinder* finder);
__attribute__((weak)) nvinfer1::IPluginCreatorInterface* const* getCreators(int32_t& nbCreators);
__attribute__((weak)) nvinfer1::IPluginCreator* const* getPluginCreators(int32_t& nbCreators);
/// By another name, as NvInferPlugin.h has one for libraries that call it.
__attribute__((weak)) bool camshaft_init_plugins(void* logger,
                                                 char const* libNamespace) __asm__("initLibNvInferPlugins");
}

namespace nvinfer1 {
namespace camshaft_detail CAMSHAFT_TENSORRT_OWN {

/// Registers what the library gives by its functions. That a creator is there already is no error: TensorRT's own
/// libraries have several such functions, for the same ones.
inline void take_creators() {
  static OwnLogger finder;
  if (auto* const set = if_own(setLoggerFinder)) set(&finder);
  int32_t count = 0;
  auto* const all = if_own(getCreators);
  auto* const v1 = all ? nullptr : if_own(getPluginCreators);
  if (all) {
    IPluginCreatorInterface* const* const creators = all(count);
    for (int32_t i = 0; i < count; ++i) own_creators().add(*creators[i], "");
  } else if (v1) {
    IPluginCreator* const* const creators = v1(count);
    for (int32_t i = 0; i < count; ++i) own_creators().add(*creators[i], "");
  } else if (own_creators().get().empty()) {
    if (auto* const init = if_own(camshaft_init_plugins)) init(&logger(), "");
  }
}

/// The operators of the library, which are those of its creators at the time.
inline camshaft_plugin_library const* operators() {
  static std::mutex mutex;
  static bool is_first = true;
  static std::map<Registered*, Entry> entries;
  static std::deque<std::vector<camshaft_plugin_operator const*>> lists;  // whoever got one may be reading it
  static std::deque<camshaft_plugin_library> libraries;
  const std::lock_guard<std::mutex> lock(mutex);
  if (is_first) take_creators();
  is_first = false;
  std::vector<camshaft_plugin_operator const*> list;
  for (Registered* of : own_creators().get()) {
    Entry& entry = entries[of];
    if (entry.name.empty()) fill(entry, *of);
    list.push_back(&entry.table);
  }
  if (lists.empty() || lists.back() != list) {
    lists.push_back(list);
    libraries.push_back({sizeof(camshaft_plugin_library), CAMSHAFT_PLUGIN_ABI, list.size(), lists.back().data()});
  }
  return &libraries.back();
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
