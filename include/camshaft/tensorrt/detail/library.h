// What Camshaft calls: each creator as an operator of its interface for plugins, camshaft_plugin.h.
#pragma once

#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "camshaft/tensorrt/detail/adapter.h"

namespace nvinfer1 {
namespace camshaft_detail {

/// The table of a creator, and the texts that it points to.
struct Entry {
  std::string domain, name, version;
  camshaft_plugin_operator table;
};

inline void fill(Entry& entry, IPluginCreatorInterface& creator) {
  const std::vector<std::string> names = IPluginRegistry::names(&creator);
  entry.domain = names[2].empty() ? domain : std::string(domain) + "." + names[2];
  entry.name = names[0] + "." + names[1];
  entry.version = names[1];
  camshaft_plugin_operator& table = entry.table;
  table = {};
  table.size = sizeof table;
  table.domain = entry.domain.c_str();
  table.name = entry.name.c_str();
  table.version = entry.version.c_str();
  table.user = &creator;
  table.create = [](void* user, camshaft_plugin_node const* node, void** instance) -> int32_t {
    return guarded(node, [&] {
      int64_t const* indices = nullptr;
      const size_t count = node->integers(node, shape_inputs_attribute, &indices);
      *instance = new Operator(made_by(*static_cast<IPluginCreatorInterface*>(user), node), {indices, indices + count});
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

}  // namespace camshaft_detail
}  // namespace nvinfer1

// What a library of plugins may export in place of REGISTER_TENSORRT_PLUGIN, for TensorRT to load it while it runs.
extern "C" __attribute__((weak)) nvinfer1::IPluginCreatorInterface* const* getCreators(int32_t& nbCreators);
extern "C" __attribute__((weak)) void setLoggerFinder(nvinfer1::ILoggerFinder* finder);

extern "C" __attribute__((weak, used, visibility("default"))) camshaft_plugin_library const* camshaft_plugin_entry(
    uint32_t) {
  using namespace nvinfer1;
  static std::mutex mutex;
  static std::deque<camshaft_detail::Entry> entries;
  static std::vector<camshaft_plugin_operator const*> tables;
  static camshaft_plugin_library library = {};
  const std::lock_guard<std::mutex> lock(mutex);
  if (library.size == 0 && getCreators) {
    struct Finder : ILoggerFinder {
      ILogger* findLogger() override { return &camshaft_detail::logger(); }
    };
    static Finder finder;
    if (setLoggerFinder) setLoggerFinder(&finder);
    int32_t count = 0;
    IPluginCreatorInterface* const* creators = getCreators(count);
    for (int32_t i = 0; i < count; ++i) camshaft_detail::registry().registerCreator(*creators[i], "");
  }
  // A library may register more of them later, by a function of its own.
  int32_t count = 0;
  IPluginCreatorInterface* const* creators = camshaft_detail::registry().getAllCreators(&count);
  for (int32_t i = 0; i < count; ++i) {
    bool is_known = false;
    for (camshaft_detail::Entry const& entry : entries) is_known = is_known || entry.table.user == creators[i];
    if (is_known) continue;
    entries.emplace_back();
    camshaft_detail::fill(entries.back(), *creators[i]);
    tables.push_back(&entries.back().table);
  }
  library = {sizeof library, CAMSHAFT_PLUGIN_ABI, tables.size(), tables.data()};
  return &library;
}
