// The creators of a library, found from all others of the process, and what its plugins share.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <deque>
#include <exception>
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
  /// Of the creator's class: tells a library's creators apart that have one name at different times.
  std::string variant;
  CreatorState state;
};

/// Where in its file the class has its virtual functions: the same in each process, until the file is made again.
inline std::string variant_of(IPluginCreatorInterface const& creator) {
  char const* functions = nullptr;
  std::memcpy(&functions, static_cast<void const*>(&creator), sizeof functions);
  Dl_info info;
  return std::to_string(dladdr(functions, &info) != 0 ? functions - static_cast<char const*>(info.dli_fbase) : 0);
}

inline std::string text_or_empty(AsciiChar const* text) {
  return text ? text : "";
}
template <class Creator>
Registered named(Creator* creator, std::string const& space) {
  return {creator,
          text_or_empty(creator->getPluginName()),
          text_or_empty(creator->getPluginVersion()),
          space.empty() ? text_or_empty(creator->getPluginNamespace()) : space,
          variant_of(*creator),
          is_registered};
}
/// Under that namespace, or its own where there is none; one without a creator for one of an unknown interface.
inline Registered registered_as(IPluginCreatorInterface& creator, AsciiChar const* pluginNamespace) {
  const std::string space = text_or_empty(pluginNamespace);
  if (IPluginCreatorV3One* const v3 = creator.camshaftV3()) return named(v3, space);
  if (IPluginCreator* const v1 = creator.camshaftV1()) return named(v1, space);
  return {nullptr, "", "", "", "", is_deregistered};
}

/// Creators of one library; what it has given out stays where it is, also when it is deregistered.
class Creators {
 public:
  /// False where one of that name, version and namespace is there.
  bool add(Registered const& given) {
    if (!given.creator) return false;
    const std::lock_guard<std::mutex> lock(mutex_);
    Registered* again = nullptr;
    for (Registered& known : all_) {
      if (known.name != given.name || known.version != given.version || known.space != given.space) continue;
      if (known.state == is_registered) return false;
      if (known.creator == given.creator && known.variant == given.variant) again = &known;
    }
    if (again) {
      again->state = is_registered;
    } else {
      all_.push_back(given);
    }
    ++changes_;
    return true;
  }
  bool set_state(Registered* entry, CreatorState state) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (entry->state == state) return false;
    entry->state = state;
    ++changes_;
    return true;
  }
  std::vector<Registered*> get(CreatorState state = is_registered) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<Registered*> listed;
    for (Registered& entry : all_)
      if (entry.state == state) listed.push_back(&entry);
    return listed;
  }
  int64_t changes() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return changes_;
  }

  /// A clone of `resource` under that key, made with the first call; each call is to be followed by a release.
  IPluginResource* acquire(std::string const& key, IPluginResource* resource) {
    auto it = resources_.find(key);
    if (it == resources_.end()) {
      IPluginResource* const made = resource ? resource->clone() : nullptr;
      if (!made) return nullptr;
      it = resources_.insert({key, {made, 0}}).first;
    }
    ++it->second.second;
    return it->second.first;
  }
  /// 0, or -1 for a key that nothing is kept under.
  int32_t release(std::string const& key) {
    const auto it = resources_.find(key);
    if (it == resources_.end()) return -1;
    if (--it->second.second > 0) return 0;
    IPluginResource* const last = it->second.first;
    resources_.erase(it);
    last->release();
    delete last;
    return 0;
  }

  /// Of all libraries, where this one is the first: creators and resources call the registry while it is locked.
  std::recursive_mutex& shared_mutex() { return shared_mutex_; }

 private:
  std::recursive_mutex shared_mutex_;
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

/// The registries of all libraries, in the order in which they were loaded.
class Everyone {
 public:
  Everyone() : seen_(libraries().get()) {}

  /// This one is among them wherever it is linked into.
  std::vector<CreatorsTable const*> tables() const {
    std::vector<CreatorsTable const*> all = seen_.tables;
    if (std::find(all.begin(), all.end(), &own_table()) == all.end()) all.insert(all.begin(), &own_table());
    return all;
  }
  std::vector<Found> creators() const {
    std::vector<Found> all;
    for (CreatorsTable const* table : tables())
      for (void* const handle : creators_of(*table, is_registered)) all.push_back({table, handle});
    return all;
  }
  bool has(AsciiChar const* name, AsciiChar const* version, AsciiChar const* space) const {
    for (Found const& found : creators())
      if (found.is_called(name, version, space)) return true;
    return false;
  }

 protected:
  Libraries::Seen seen_;
};

/// The same, while no other thread registers, acquires or releases. Nothing asks the loader for a library, or what is
/// in one, meanwhile: it may have its own lock while it waits for this one, as constructors of a library register
/// creators.
class LockedEveryone : public Everyone {
 public:
  LockedEveryone() {
    for (;;) {
      first_ = seen_.tables.empty() ? &own_table() : seen_.tables.front();
      first_->lock();
      if (Libraries::is_current(seen_)) return;
      first_->unlock();
      seen_ = libraries().get();
    }
  }
  ~LockedEveryone() { first_->unlock(); }
  LockedEveryone(LockedEveryone const&) = delete;
  LockedEveryone& operator=(LockedEveryone const&) = delete;

 private:
  CreatorsTable const* first_ = nullptr;
};

}  // namespace CAMSHAFT_TENSORRT_OWN

class CAMSHAFT_TENSORRT_OWN IPluginRegistry {
 public:
  using PluginLibraryHandle = void*;

  /// False where one of that name, version and namespace is there. The creator is used as long as the process runs,
  /// also when it was deregistered: engines are made of it.
  bool registerCreator(IPluginCreatorInterface& creator, AsciiChar const* pluginNamespace) noexcept {
    using namespace camshaft_detail;
    const Registered given = registered_as(creator, pluginNamespace);
    {
      const LockedEveryone everyone;
      if (everyone.has(given.name.c_str(), given.version.c_str(), given.space.c_str())) return false;
      if (!own_creators().add(given)) return false;
    }
    IPluginCreator* const v1 = creator.camshaftV1();
    if (v1 && pluginNamespace && *pluginNamespace) v1->setPluginNamespace(pluginNamespace);
    return true;
  }
  /// In all namespaces that it is registered in.
  bool deregisterCreator(IPluginCreatorInterface const& creator) noexcept {
    bool was_there = false;
    for (camshaft_detail::Found const& found : everywhere())
      if (found.creator() == &creator)
        was_there |= found.table->set_state(found.handle, camshaft_detail::is_deregistered) != 0;
    return was_there;
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
    const camshaft_detail::LockedEveryone everyone;
    const std::vector<camshaft_detail::CreatorsTable const*> all = everyone.tables();
    for (camshaft_detail::CreatorsTable const* table : all)
      if (void* const held = table->acquire(key, nullptr)) return static_cast<IPluginResource*>(held);
    return static_cast<IPluginResource*>(all.front()->acquire(key, resource));
  }
  /// 0, or -1 for a key that nothing is kept under.
  int32_t releasePluginResource(AsciiChar const* key) noexcept {
    const camshaft_detail::LockedEveryone everyone;
    for (camshaft_detail::CreatorsTable const* table : everyone.tables())
      if (table->release(key) == 0) return 0;
    return -1;
  }

 private:
  static std::vector<camshaft_detail::Found> everywhere() { return camshaft_detail::Everyone().creators(); }
  template <class T>
  T* const* kept(std::deque<std::vector<T*>>& lists, std::vector<T*> const& list, int32_t* count) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    *count = static_cast<int32_t>(list.size());
    auto it = std::find(lists.begin(), lists.end(), list);
    if (it == lists.end()) it = lists.insert(lists.end(), list);
    return it->data();
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
inline bool is_table_of(void* handle, CreatorsTable const* table) {
  return is_of(handle, reinterpret_cast<void*>(table->list));
}

}  // namespace CAMSHAFT_TENSORRT_OWN

inline IPluginRegistry::PluginLibraryHandle IPluginRegistry::loadLibrary(AsciiChar const* pluginPath) noexcept {
  using namespace camshaft_detail;
  const auto refuse = [](std::string const& why) {
    logger().log(ILogger::Severity::kERROR, why.c_str());
    return nullptr;
  };
  void* const handle = dlopen(pluginPath, RTLD_NOW | RTLD_LOCAL);
  if (!handle) return refuse(dlerror());
  const std::string path = text_or_empty(pluginPath);
  void* const entry = dlsym(handle, CAMSHAFT_PLUGIN_ENTRY);
  if (!entry || !is_of(handle, entry)) return refuse(path + ": it was not compiled with Camshaft's NvInfer.h");
  try {
    reinterpret_cast<camshaft_plugin_entry_function>(entry)(CAMSHAFT_PLUGIN_ABI);  // takes what getCreators() gives
  } catch (std::exception const& e) {
    return refuse(path + ": its function that registers creators threw an exception: " + e.what());
  } catch (...) {
    return refuse(path + ": its function that registers creators threw something that is no std::exception");
  }
  for (CreatorsTable const* table : Everyone().tables()) {
    if (!is_table_of(handle, table)) continue;
    const LockedEveryone everyone;
    for (void* const out : creators_of(*table, is_taken_out))
      if (!everyone.has(table->text(out, 0), table->text(out, 1), table->text(out, 2)))
        table->set_state(out, is_registered);
  }
  return handle;
}
inline void IPluginRegistry::deregisterLibrary(PluginLibraryHandle handle) noexcept {
  using namespace camshaft_detail;
  for (Found const& found : everywhere())
    if (handle && is_table_of(handle, found.table)) found.table->set_state(found.handle, is_taken_out);
}

template <typename T>
class CAMSHAFT_TENSORRT_OWN PluginRegistrar {
 public:
  // Whether another library has one of that name is for those to say who load this one.
  PluginRegistrar() { camshaft_detail::own_creators().add(camshaft_detail::registered_as(instance_, "")); }

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
