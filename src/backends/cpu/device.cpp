#include "backends/cpu/device.h"

#include <fmt/format.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <array>

#include "backends/cpu/kernels/targets.h"
#include "base/available_cores.h"
#include "hwy/highway.h"
#include "source_hash.h"

namespace camshaft::cpu {

namespace {

// From the processor itself: /proc/cpuinfo, which says the same, takes some 0.2 ms of a start.
std::string brand() {
#if defined(__x86_64__)
  constexpr unsigned first = 0x80000002, leaves = 3;
  if (static_cast<unsigned>(__get_cpuid_max(0x80000000, nullptr)) < first + leaves - 1) return "unknown CPU";
  std::array<unsigned, 4 * leaves> words{};
  for (unsigned i = 0; i < leaves; ++i)
    __cpuid(first + i, words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
  std::string text(reinterpret_cast<const char*>(words.data()), sizeof words);
  text.erase(std::min(text.find('\0'), text.size()));
  text.erase(text.find_last_not_of(' ') + 1);
  text.erase(0, text.find_first_not_of(' '));
  if (!text.empty()) return text;
#endif
  return "unknown CPU";
}

constexpr const char* compiler() {
#ifdef __clang__
  return "clang " __clang_version__;
#else
  return "gcc " __VERSION__;
#endif
}

}  // namespace

DeviceInfo describe_cpu() {
  DeviceInfo info;
  info.kind = "cpu";
  info.name = brand();
  info.cores = available_cores();
  info.memory_bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  const int64_t targets = hwy::SupportedTargets();
  info.isa = targets & HWY_AVX3 ? "avx512" : targets & HWY_AVX2 ? "avx2" : "baseline";
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) info.features.emplace_back("avx2");
  if (__builtin_cpu_supports("fma")) info.features.emplace_back("fma");
  if (__builtin_cpu_supports("avx512f")) info.features.emplace_back("avx512f");
  if (__builtin_cpu_supports("avx512vnni")) info.features.emplace_back("avx512_vnni");
  if (__builtin_cpu_supports("avx512bf16")) info.features.emplace_back("avx512_bf16");
  // The version alone says little while it is being worked on: the sources do.
  info.code = fmt::format("camshaft {} ({}), highway {}.{}.{}, {}", CAMSHAFT_VERSION, CAMSHAFT_CPU_SOURCE_HASH,
                          HWY_MAJOR, HWY_MINOR, HWY_PATCH, compiler());
  return info;
}

std::string isa_warning(const std::string& isa) {
  if (isa != "baseline") return "";
  return "this CPU lacks AVX2 with FMA: all models run, but without vector instructions and many times slower; engines "
         "built here pick faster kernels where they are loaded on a newer CPU";
}

}  // namespace camshaft::cpu
