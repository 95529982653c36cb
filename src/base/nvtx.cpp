#include "base/nvtx.h"

#include <cstdlib>
#include <string_view>

#include "base/dynamic_library.h"
#include "base/nvtx_protocol.h"

namespace camshaft {

namespace {

// What the profiler gives us: places for functions, all of which it may fill, and of which three are called.
struct Functions {
  nvtx::Function functions[nvtx::module_count][16] = {};
  nvtx::Function* places[nvtx::module_count][17] = {};  // the first is empty, as is the one behind the last
};

Functions& functions() {
  static Functions made;
  return made;
}

int module_functions(int module, nvtx::Function*** table, unsigned* size) {
  if (module < nvtx::core || module >= nvtx::module_count) return 0;
  Functions& f = functions();
  for (unsigned i = 1; i < nvtx::module_size[module]; ++i) f.places[module][i] = &f.functions[module][i];
  if (table) *table = f.places[module];
  if (size) *size = nvtx::module_size[module];
  return 1;
}

const void* export_table(uint32_t table) {
  static const nvtx::Callbacks callbacks{.module_functions = module_functions};
  static const nvtx::VersionInfo version{.set_version_of_profiler = [](uint32_t) {}};
  return table == nvtx::callbacks      ? static_cast<const void*>(&callbacks)
         : table == nvtx::version_info ? static_cast<const void*>(&version)
                                       : nullptr;
}

template <class F>
F core2(nvtx::Core2 which) {
  return reinterpret_cast<F>(functions().functions[nvtx::core2][which]);
}

struct Profiler {
  DynamicLibrary library;
  nvtx::RangePush push = nullptr;
  nvtx::RangePop pop = nullptr;
  nvtx::Domain domain = nullptr;

  Profiler() {
    const char* path = std::getenv("NVTX_INJECTION64_PATH");
    if (!path || std::string_view(path).empty() || std::string_view(path) == "./.") return;  // the latter: none
    library = DynamicLibrary({path}, {});
    const auto initialize = reinterpret_cast<nvtx::Initialize>(library.symbol("InitializeInjectionNvtx2"));
    if (!initialize || initialize(export_table) == 0) return;
    push = core2<nvtx::RangePush>(nvtx::domain_range_push);
    pop = core2<nvtx::RangePop>(nvtx::domain_range_pop);
    if (const auto create = core2<nvtx::DomainCreate>(nvtx::domain_create)) domain = create("camshaft");
  }
};

const Profiler& profiler() {
  static const auto& made = *new Profiler;  // never closed: the profiler collects until the process ends
  return made;
}

}  // namespace

bool NvtxRange::is_attached() {
  const Profiler& p = profiler();
  return p.push && p.pop;
}

void NvtxRange::push(const std::string& name) {
  const nvtx::Event event{.message = name.c_str()};
  profiler().push(profiler().domain, &event);
}

void NvtxRange::pop() {
  profiler().pop(profiler().domain);
}

}  // namespace camshaft
