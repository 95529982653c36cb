#include "backends/cpu/device.h"

#include <fmt/format.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <array>
#if defined(__aarch64__)
#include <fstream>
#endif

#include "backends/cpu/kernels/gemm/matrix_unit.h"
#include "backends/cpu/kernels/tile_traits.h"
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
#elif defined(__aarch64__)
  // The main identification register: implementer and part. There is no instruction that gives a name.
  std::string identification;
  if (std::getline(std::ifstream("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1"), identification) &&
      !identification.empty())
    return "ARM " + identification;
#endif
  return "unknown CPU";
}

// Of what the processor has, what kernels use or could.
std::vector<std::string> features() {
  std::vector<std::string> found;
  const auto add = [&](bool has, const char* name) {
    if (has) found.emplace_back(name);
  };
#if defined(__x86_64__)
  __builtin_cpu_init();
  add(__builtin_cpu_supports("avx2"), "avx2");
  add(__builtin_cpu_supports("fma"), "fma");
  add(__builtin_cpu_supports("avx512f"), "avx512f");
  add(__builtin_cpu_supports("avx512vnni"), "avx512_vnni");
  add(__builtin_cpu_supports("avx512bf16"), "avx512_bf16");
  // Where the system grants their registers.
  add(byte_matrix_unit() == MatrixUnit::amx, "amx_int8");
  add(pair_matrix_unit() == MatrixUnit::amx, "amx_bf16");
#elif defined(__aarch64__)
  const unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
  add(first & HWCAP_ASIMD, "neon");
  add(first & HWCAP_ASIMDDP, "dotprod");
  add(first & HWCAP_SVE, "sve");
  add(second & HWCAP2_I8MM, "i8mm");
  add(second & HWCAP2_BF16, "bf16");
#endif
  return found;
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
  info.isa = tile_traits().isa;
  info.features = features();
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
