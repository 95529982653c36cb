// A profiler as NVTX 3 knows them (NVTX_INJECTION64_PATH): writes the ranges that it is told of to the file
// NVTX_LISTENER_OUTPUT, those inside others with two spaces more.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "base/nvtx_protocol.h"

namespace {

namespace nvtx = camshaft::nvtx;

std::mutex mutex;
std::map<std::thread::id, int> depth;

void write(const std::string& line) {
  static FILE* file = std::fopen(std::getenv("NVTX_LISTENER_OUTPUT"), "w");
  std::fputs((line + "\n").c_str(), file);
  std::fflush(file);
}

nvtx::Domain create_domain(const char* name) {
  return new std::string(name);
}

int push(nvtx::Domain domain, const nvtx::Event* event) {
  const std::lock_guard lock(mutex);
  int& level = depth[std::this_thread::get_id()];
  if (event->version != nvtx::version || event->bytes != sizeof(nvtx::Event)) write("an event of another version");
  write(std::string(static_cast<size_t>(2 * level), ' ') + *static_cast<std::string*>(domain) + ": " + event->message);
  return level++;
}

int pop(nvtx::Domain) {
  const std::lock_guard lock(mutex);
  if (--depth[std::this_thread::get_id()] < 0) write("a range ends that did not begin");
  return depth[std::this_thread::get_id()];
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(const void* (*export_table)(uint32_t)) {
  const auto* callbacks = static_cast<const nvtx::Callbacks*>(export_table(nvtx::callbacks));
  nvtx::Function** table = nullptr;
  unsigned size = 0;
  if (!callbacks || callbacks->bytes < sizeof(nvtx::Callbacks)) return 0;
  // Others fill all that they know.
  for (const int module : {nvtx::core, nvtx::cuda, nvtx::opencl, nvtx::cudart, nvtx::sync}) {
    if (callbacks->module_functions(module, &table, &size) == 0) return 0;
    for (unsigned i = 1; i < size; ++i) *table[i] = [] { std::abort(); };
  }
  if (callbacks->module_functions(nvtx::core2, &table, &size) == 0) return 0;
  *table[nvtx::domain_create] = reinterpret_cast<nvtx::Function>(create_domain);
  *table[nvtx::domain_range_push] = reinterpret_cast<nvtx::Function>(push);
  *table[nvtx::domain_range_pop] = reinterpret_cast<nvtx::Function>(pop);
  return 1;
}
