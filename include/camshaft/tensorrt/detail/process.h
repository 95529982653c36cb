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
  /// Which interfaces the library's creators have: see camshaft_detail::interface_number.
  int32_t interface_number;
  /// Grows whenever the list of creators changes.
  int64_t (*changes)();
  /// The IPluginCreatorInterface.
  void* (*pointer)(void* creator);
  /// Takes it out of the list, or puts it there again; 0 where that changes nothing.
  int32_t (*set_registered)(void* creator, int32_t is_registered);
  /// As IPluginRegistry has them; an acquired IPluginResource, or null.
  void* (*acquire)(char const* key, void* resource);
  int32_t (*release)(char const* key);
};
}

namespace nvinfer1 {
namespace camshaft_detail CAMSHAFT_TENSORRT_OWN {

using CreatorsTable = camshaft_tensorrt_creators_table;
constexpr char const* table_symbol = "camshaft_tensorrt_creators";

/// Libraries with the same number have the same classes, and so can use each other's creators.
constexpr int32_t interface_number = 100 + static_cast<int32_t>(sizeof(DimsSize));

/// Whether the function is of the library of that handle, not of one that it is linked with.
inline bool is_of(void* handle, void* function) {
  link_map *wanted = nullptr, *found = nullptr;
  Dl_info info;
  return dlinfo(handle, RTLD_DI_LINKMAP, &wanted) == 0 &&
         dladdr1(function, &info, reinterpret_cast<void**>(&found), RTLD_DL_LINKMAP) != 0 && found == wanted;
}

/// A function of a library that is loaded already, by the library's path; null where there is none.
inline void* function_of(char const* path, char const* name) {
  void* const handle = dlopen(path, RTLD_NOLOAD | RTLD_LAZY);
  if (!handle) return nullptr;
  void* const function = dlsym(handle, name);
  const bool is_own = function && is_of(handle, function);
  dlclose(handle);
  return is_own ? function : nullptr;
}

/// Whether two functions are of one library.
inline bool same_library(void* a, void* b) {
  Dl_info of_a, of_b;
  return dladdr(a, &of_a) != 0 && dladdr(b, &of_b) != 0 && of_a.dli_fbase == of_b.dli_fbase;
}

/// The tables of libraries with creators, in the order in which they were loaded.
class Libraries {
 public:
  std::vector<CreatorsTable const*> get() {
    // Nothing is locked while the loader is asked, which may have a lock of its own while it calls us.
    Seen now;
    dl_iterate_phdr(count, &now);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (seen_.adds == now.adds && seen_.subs == now.subs) return tables_;
    }
    dl_iterate_phdr(collect, &now);
    std::vector<CreatorsTable const*> tables;
    for (std::string const& path : now.paths) {
      void* const function = function_of(path.c_str(), table_symbol);
      if (!function) continue;
      CreatorsTable const* table = reinterpret_cast<CreatorsTable const* (*)()>(function)();
      if (table->size >= sizeof(CreatorsTable) && table->interface_number == interface_number) tables.push_back(table);
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    seen_ = now;
    return tables_ = tables;
  }

 private:
  struct Seen {
    unsigned long long adds = 0, subs = 0;
    std::vector<std::string> paths;
  };
  static int count(dl_phdr_info* info, size_t, void* user) {
    static_cast<Seen*>(user)->adds = info->dlpi_adds;
    static_cast<Seen*>(user)->subs = info->dlpi_subs;
    return 1;
  }
  static int collect(dl_phdr_info* info, size_t, void* user) {
    if (info->dlpi_name && *info->dlpi_name) static_cast<Seen*>(user)->paths.push_back(info->dlpi_name);
    return 0;
  }
  std::mutex mutex_;
  Seen seen_;
  std::vector<CreatorsTable const*> tables_;
};

}  // namespace CAMSHAFT_TENSORRT_OWN
}  // namespace nvinfer1
