// The creators of a library, found from all others of the process, and what its plugins share.
#pragma once

#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "camshaft/tensorrt/detail/process.h"

namespace nvinfer1 {

namespace camshaft_detail CAMSHAFT_TENSORRT_OWN {

/// A creator under the name that it was registered by.
struct Registered {
  IPluginCreatorInterface* creator;
  std::string name, version, space;
  bool is_registered;
};

inline std::string text_or_empty(AsciiChar const* text) {
  return text ? text : "";
}
template <class Creator>
Registered registered_as(Creator* creator, std::string const& space) {
  return {creator, text_or_empty(creator->getPluginName()), text_or_empty(creator->getPluginVersion()),
          space.empty() ? text_or_empty(creator->getPluginNamespace()) : space, true};
}

/// Creators of one library; what it has given out stays where it is, also when it is deregistered.
class Creators {
 public:
  /// False where one of that name, version and namespace is there.
  bool add(IPluginCreatorInterface& creator, AsciiChar const* pluginNamespace) {
    IPluginCreator* const v1 = creator.camshaftV1();
    if (!v1 && !creator.camshaftV3()) return false;
    const std::string space = text_or_empty(pluginNamespace);
    if (v1 && !space.empty()) v1->setPluginNamespace(pluginNamespace);
    const Registered given = v1 ? registered_as(v1, space) : registered_as(creator.camshaftV3(), space);
    const std::lock_guard<std::mutex> lock(mutex_);
    Registered* again = nullptr;
    for (Registered& known : all_) {
      if (known.name != given.name || known.version != given.version || known.space != given.space) continue;
      if (known.is_registered) return false;
      if (known.creator == &creator) again = &known;
    }
    if (again) {
      again->is_registered = true;
    } else {
      all_.push_back(given);
    }
    ++changes_;
    return true;
  }
  bool set_registered(Registered* entry, bool is_registered) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (entry->is_registered == is_registered) return false;
    entry->is_registered = is_registered;
    ++changes_;
    return true;
  }
  std::vector<Registered*> get() {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<Registered*> listed;
    for (Registered& entry : all_)
      if (entry.is_registered) listed.push_back(&entry);
    return listed;
  }
  int64_t changes() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return changes_;
  }

  /// A clone of `resource` under that key, made with the first call; each call is to be followed by a release.
  IPluginResource* acquire(std::string const& key, IPluginResource* resource) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto& kept = resources_[key];
    if (!kept.first && resource) kept.first = resource->clone();
    if (kept.first) ++kept.second;
    return kept.first;
  }
  /// 0, or -1 for a key that nothing is kept under.
  int32_t release(std::string const& key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = resources_.find(key);
    if (it == resources_.end() || !it->second.first) return -1;
    if (--it->second.second > 0) return 0;
    it->second.first->release();
    delete it->second.first;
    resources_.erase(it);
    return 0;
  }

 private:
  std::mutex mutex_;
  std::deque<Registered> all_;
  int64_t changes_ = 0;
  std::map<std::string, std::pair<IPluginResource*, int64_t>> resources_;
};

// Creators are registered, and used, outside of main().
inline Creators& own_creators() {
  static auto* const one = new Creators;
  return *one;
}
inline Libraries& libraries() {
  static auto* const one = new Libraries;
  return *one;
}

/// What this library exports of its registry.
CreatorsTable const& own_table();

/// A creator of any library of the process.
struct Found {
  CreatorsTable const* table;
  void* handle;
  IPluginCreatorInterface* creator() const { return static_cast<IPluginCreatorInterface*>(table->pointer(handle)); }
  bool is_called(AsciiChar const* name, AsciiChar const* version, AsciiChar const* space) const {
    AsciiChar const* const wanted[] = {name, version, space};
    for (int32_t which = 0; which < 3; ++which)
      if (text_or_empty(wanted[which]) != table->text(handle, which)) return false;
    return true;
  }
};

}  // namespace CAMSHAFT_TENSORRT_OWN

class CAMSHAFT_TENSORRT_OWN IPluginRegistry {
 public:
  using PluginLibraryHandle = void*;

  /// False where one of that name, version and namespace is there.
  bool registerCreator(IPluginCreatorInterface& creator, AsciiChar const* pluginNamespace) noexcept {
    using namespace camshaft_detail;
    IPluginCreator* const v1 = creator.camshaftV1();
    IPluginCreatorV3One* const v3 = creator.camshaftV3();
    if (!v1 && !v3) return false;
    const std::string space = text_or_empty(pluginNamespace);
    const Registered named = v1 ? registered_as(v1, space) : registered_as(v3, space);
    if (getCreator(named.name.c_str(), named.version.c_str(), named.space.c_str())) return false;
    return own_creators().add(creator, pluginNamespace);
  }
  bool deregisterCreator(IPluginCreatorInterface const& creator) noexcept {
    for (camshaft_detail::Found const& found : everywhere())
      if (found.creator() == &creator) return found.table->set_registered(found.handle, 0) != 0;
    return false;
  }
  /// What is given stays valid, and is the list of now.
  IPluginCreatorInterface* const* getAllCreators(int32_t* numCreators) const noexcept {
    std::vector<IPluginCreatorInterface*> listed;
    for (camshaft_detail::Found const& found : everywhere()) listed.push_back(found.creator());
    return kept(lists_, listed, numCreators);
  }
  IPluginCreatorInterface* const* getAllCreatorsRecursive(int32_t* numCreators) noexcept {
    return getAllCreators(numCreators);
  }
  /// Those that are an IPluginCreator.
  IPluginCreator* const* getPluginCreatorList(int32_t* numCreators) const noexcept {
    std::vector<IPluginCreator*> listed;
    for (camshaft_detail::Found const& found : everywhere())
      if (IPluginCreator* const v1 = found.creator()->camshaftV1()) listed.push_back(v1);
    return kept(v1_lists_, listed, numCreators);
  }
  IPluginCreatorInterface* getCreator(AsciiChar const* pluginName, AsciiChar const* pluginVersion,
                                      AsciiChar const* pluginNamespace = "") noexcept {
    for (camshaft_detail::Found const& found : everywhere())
      if (found.is_called(pluginName, pluginVersion, pluginNamespace)) return found.creator();
    return nullptr;
  }
  IPluginCreator* getPluginCreator(AsciiChar const* pluginName, AsciiChar const* pluginVersion,
                                   AsciiChar const* pluginNamespace = "") noexcept {
    IPluginCreatorInterface* const found = getCreator(pluginName, pluginVersion, pluginNamespace);
    return found ? found->camshaftV1() : nullptr;
  }

  /// Loads a library that was compiled with this header, and registers its creators. Null where that cannot be: the
  /// logger has said why. deregisterLibrary() takes them out; nothing is unloaded.
  PluginLibraryHandle loadLibrary(AsciiChar const* pluginPath) noexcept;
  void deregisterLibrary(PluginLibraryHandle handle) noexcept;

  void setErrorRecorder(IErrorRecorder* recorder) noexcept { recorder_ = recorder; }
  IErrorRecorder* getErrorRecorder() const noexcept { return recorder_; }
  bool isParentSearchEnabled() const noexcept { return is_parent_searched_; }
  /// There is one registry, without parents.
  void setParentSearchEnabled(bool enabled) noexcept { is_parent_searched_ = enabled; }

  /// What all plugins of the process have that ask for this key: a clone of the first one's resource.
  IPluginResource* acquirePluginResource(AsciiChar const* key, IPluginResource* resource) noexcept {
    const std::vector<camshaft_detail::CreatorsTable const*> all = tables();
    for (camshaft_detail::CreatorsTable const* table : all)
      if (void* const held = table->acquire(key, nullptr)) return static_cast<IPluginResource*>(held);
    return static_cast<IPluginResource*>(all.front()->acquire(key, resource));
  }
  /// 0, or -1 for a key that nothing is kept under.
  int32_t releasePluginResource(AsciiChar const* key) noexcept {
    for (camshaft_detail::CreatorsTable const* table : tables())
      if (table->release(key) == 0) return 0;
    return -1;
  }

 private:
  /// Of all libraries, in the order in which they were loaded; this one is among them wherever it is linked into.
  static std::vector<camshaft_detail::CreatorsTable const*> tables() {
    std::vector<camshaft_detail::CreatorsTable const*> all = camshaft_detail::libraries().get();
    camshaft_detail::CreatorsTable const* const own = &camshaft_detail::own_table();
    for (camshaft_detail::CreatorsTable const* table : all)
      if (table == own) return all;
    all.insert(all.begin(), own);
    return all;
  }
  static std::vector<camshaft_detail::Found> everywhere() {
    std::vector<camshaft_detail::Found> all;
    for (camshaft_detail::CreatorsTable const* table : tables())
      for (int32_t i = 0, count = table->count(); i < count; ++i)
        if (void* const handle = table->creator(i)) all.push_back({table, handle});
    return all;
  }
  template <class T>
  T* const* kept(std::deque<std::vector<T*>>& lists, std::vector<T*> const& list, int32_t* count) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (lists.empty() || lists.back() != list) lists.push_back(list);
    *count = static_cast<int32_t>(list.size());
    return lists.back().data();
  }

  mutable std::mutex mutex_;
  mutable std::deque<std::vector<IPluginCreatorInterface*>> lists_;
  mutable std::deque<std::vector<IPluginCreator*>> v1_lists_;
  IErrorRecorder* recorder_ = nullptr;
  bool is_parent_searched_ = true;
};

namespace camshaft_detail CAMSHAFT_TENSORRT_OWN {

/// Writes warnings and errors to the error output.
class StandardLogger : public ILogger {
 public:
  void log(Severity severity, AsciiChar const* msg) noexcept override {
    if (severity <= Severity::kWARNING) std::fprintf(stderr, "plugin: %s\n", msg);
  }
};

inline IPluginRegistry& registry() {
  static auto* const one = new IPluginRegistry;
  return *one;
}
inline ILogger& logger() {
  static auto* const one = new StandardLogger;
  return *one;
}

}  // namespace CAMSHAFT_TENSORRT_OWN

inline IPluginRegistry::PluginLibraryHandle IPluginRegistry::loadLibrary(AsciiChar const* pluginPath) noexcept {
  void* const handle = dlopen(pluginPath, RTLD_NOW | RTLD_LOCAL);
  void* const entry = handle ? dlsym(handle, CAMSHAFT_PLUGIN_ENTRY) : nullptr;
  if (!handle || !entry || !camshaft_detail::is_of(handle, entry)) {
    const std::string why =
        !handle ? dlerror() : std::string(pluginPath) + ": it was not compiled with Camshaft's NvInfer.h";
    camshaft_detail::logger().log(ILogger::Severity::kERROR, why.c_str());
    return nullptr;
  }
  reinterpret_cast<camshaft_plugin_entry_function>(entry)(CAMSHAFT_PLUGIN_ABI);  // takes what getCreators() gives
  return handle;
}
inline void IPluginRegistry::deregisterLibrary(PluginLibraryHandle handle) noexcept {
  void* const function = handle ? dlsym(handle, camshaft_detail::table_symbol) : nullptr;
  if (!function || !camshaft_detail::is_of(handle, function)) return;
  camshaft_detail::CreatorsTable const* const wanted =
      reinterpret_cast<camshaft_detail::CreatorsTable const* (*)()>(function)();
  for (camshaft_detail::Found const& found : everywhere())
    if (found.table == wanted) found.table->set_registered(found.handle, 0);
}

template <typename T>
class CAMSHAFT_TENSORRT_OWN PluginRegistrar {
 public:
  // Whether another library has one of that name is for those to say who load this one.
  PluginRegistrar() { camshaft_detail::own_creators().add(instance_, ""); }

 private:
  T instance_{};
};

enum class EngineCapability : int32_t { kSTANDARD = 0, kSAFETY = 1, kDLA_STANDALONE = 2 };

}  // namespace nvinfer1

CAMSHAFT_TENSORRT_OWN inline nvinfer1::IPluginRegistry* getPluginRegistry() noexcept {
  return &nvinfer1::camshaft_detail::registry();
}
CAMSHAFT_TENSORRT_OWN inline nvinfer1::IPluginRegistry* getBuilderPluginRegistry(nvinfer1::EngineCapability) noexcept {
  return &nvinfer1::camshaft_detail::registry();
}
CAMSHAFT_TENSORRT_OWN inline nvinfer1::ILogger* getLogger() noexcept {
  return &nvinfer1::camshaft_detail::logger();
}
CAMSHAFT_TENSORRT_OWN inline int32_t getInferLibVersion() noexcept {
  return static_cast<int32_t>(NV_TENSORRT_VERSION);
}
CAMSHAFT_TENSORRT_OWN inline int32_t getInferLibMajorVersion() noexcept {
  return NV_TENSORRT_MAJOR;
}
CAMSHAFT_TENSORRT_OWN inline int32_t getInferLibMinorVersion() noexcept {
  return NV_TENSORRT_MINOR;
}
CAMSHAFT_TENSORRT_OWN inline int32_t getInferLibPatchVersion() noexcept {
  return NV_TENSORRT_PATCH;
}
CAMSHAFT_TENSORRT_OWN inline int32_t getInferLibBuildVersion() noexcept {
  return NV_TENSORRT_BUILD;
}

#define REGISTER_TENSORRT_PLUGIN(name) \
  static nvinfer1::PluginRegistrar<name> pluginRegistrar##name {}
