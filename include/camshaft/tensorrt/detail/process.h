// Other libraries of the process that have creators: all registries act as one.
#pragma once

#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "camshaft/tensorrt/detail/plugins.h"

extern "C" {
/// What each library exports of its registry, for other libraries and for camshaft.tensorrt. Creators and plugins are
/// handles. What functions give is valid until the next call of the same thread. Fields are bytes as Fields::stored()
/// writes them.
struct camshaft_tensorrt_creators_table {
  size_t size;
  int32_t size_bytes;  ///< of a size in a field of kDIMS: 4 or 8
  /// Those of a CreatorState, as they are at one time: how many, of which as many as fit are written.
  int32_t (*list)(int32_t state, void** creators, int32_t capacity);
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
  /// Which interfaces the library's creators have: see camshaft_detail::interface_number.
  int32_t interface_number;
  /// Grows whenever the list of creators changes.
  int64_t (*changes)();
  /// The IPluginCreatorInterface.
  void* (*pointer)(void* creator);
  /// To a CreatorState; 0 where that changes nothing.
  int32_t (*set_state)(void* creator, int32_t state);
  /// As IPluginRegistry has them; an acquired IPluginResource, or null. To be called under the lock below.
  void* (*acquire)(char const* key, void* resource);
  int32_t (*release)(char const* key);
  /// The first library's is that of all: nothing is registered, acquired or released without it. It may be locked again
  /// by a thread that has it.
  void (*lock)();
  void (*unlock)();
};
}

namespace nvinfer1 {
namespace camshaft_detail CAMSHAFT_TENSORRT_OWN {

using CreatorsTable = camshaft_tensorrt_creators_table;
constexpr char const* table_symbol = "camshaft_tensorrt_creators";

/// Libraries with the same number have the same classes and this table, and so can use each other's creators.
constexpr int32_t interface_number = 200 + static_cast<int32_t>(sizeof(DimsSize));

enum CreatorState : int32_t {
  is_deregistered = 0,
  is_registered = 1,
  is_taken_out = 2,  ///< with its library, by deregisterLibrary(): loading that registers it again
};

inline std::vector<void*> creators_of(CreatorsTable const& table, CreatorState state) {
  std::vector<void*> creators;
  int32_t count = 16;
  do {
    creators.resize(static_cast<size_t>(count));
    count = table.list(state, creators.data(), count);
  } while (static_cast<size_t>(count) > creators.size());
  creators.resize(static_cast<size_t>(count));
  return creators;
}

/// Whether the function is of the library of that handle, not of one that it is linked with.
inline bool is_of(void* handle, void* function) {
  link_map *wanted = nullptr, *found = nullptr;
  Dl_info info;
  return dlinfo(handle, RTLD_DI_LINKMAP, &wanted) == 0 &&
         dladdr1(function, &info, reinterpret_cast<void**>(&found), RTLD_DL_LINKMAP) != 0 && found == wanted;
}

/// A function of a library that is loaded already, by the library's path (null: the program); null where there is none.
/// The library stays loaded from there on: another thread may close it while the function is used.
inline void* function_of(char const* path, char const* name) {
  void* const handle = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
  if (!handle) return nullptr;
  void* const function = dlsym(handle, name);
  void* const pinned =
      function && is_of(handle, function) ? dlopen(path, RTLD_NOLOAD | RTLD_LAZY | RTLD_NODELETE) : nullptr;
  if (pinned) dlclose(pinned);
  dlclose(handle);
  return pinned ? function : nullptr;
}

/// A function of the library that `within` is in. A reference by its name may lead to that of another library, which
/// was loaded for all to see (RTLD_GLOBAL).
inline void* function_beside(void const* within, char const* name) {
  Dl_info info;
  link_map* own = nullptr;
  if (dladdr1(within, &info, reinterpret_cast<void**>(&own), RTLD_DL_LINKMAP) == 0 || !own) return nullptr;
  return function_of(own->l_name && *own->l_name ? own->l_name : nullptr, name);
}

/// The tables of libraries with creators, in the order in which they were loaded.
class Libraries {
 public:
  struct Seen {
    unsigned long long adds = 0, subs = 0;  ///< of libraries, until then
    std::vector<CreatorsTable const*> tables;
  };
  Seen get() {
    // Nothing is locked while the loader is asked, which may have a lock of its own while it calls us.
    Seen now;
    dl_iterate_phdr(count, &now);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (is_same(seen_, now)) return seen_;
    }
    std::vector<std::string> paths;
    dl_iterate_phdr(collect, &paths);
    for (std::string const& path : paths) {
      void* const function = function_of(path.c_str(), table_symbol);
      if (!function) continue;
      CreatorsTable const* table = reinterpret_cast<CreatorsTable const* (*)()>(function)();
      if (table->size >= sizeof(CreatorsTable) && table->interface_number == interface_number)
        now.tables.push_back(table);
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    return seen_ = now;
  }
  /// Whether no library was loaded or closed since. The loader does not hold the lock of this while it runs
  /// constructors.
  static bool is_current(Seen const& seen) {
    Seen now;
    dl_iterate_phdr(count, &now);
    return is_same(seen, now);
  }

 private:
  static bool is_same(Seen const& a, Seen const& b) { return a.adds == b.adds && a.subs == b.subs; }
  static int count(dl_phdr_info* info, size_t, void* user) {
    static_cast<Seen*>(user)->adds = info->dlpi_adds;
    static_cast<Seen*>(user)->subs = info->dlpi_subs;
    return 1;
  }
  static int collect(dl_phdr_info* info, size_t, void* user) {
    if (info->dlpi_name && *info->dlpi_name) static_cast<std::vector<std::string>*>(user)->push_back(info->dlpi_name);
    return 0;
  }
  std::mutex mutex_;
  Seen seen_;
};

}  // namespace CAMSHAFT_TENSORRT_OWN
}  // namespace nvinfer1
