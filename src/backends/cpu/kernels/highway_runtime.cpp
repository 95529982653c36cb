// The part of Highway that is not in its headers: which of the compiled targets this CPU can run. Ours, because Debian
// ships that part as a shared library only, and a binary must not depend on one.
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "backends/cpu/kernels/targets.h"
#include "hwy/base.h"
#include "hwy/targets.h"

namespace hwy {

namespace {

std::atomic<int64_t> targets_for_test{0};
std::atomic<int64_t> enabled_targets{-1};

#if HWY_ARCH_X86
int64_t detect() {
  __builtin_cpu_init();
  int64_t targets = HWY_STATIC_TARGET | HWY_EMU128 | HWY_SCALAR;
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2");
  if (!avx2) return targets;
  targets |= HWY_AVX2;
  const bool avx3 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512cd");
  return avx3 ? targets | HWY_AVX3 : targets;
}
#else
// Where one target is compiled, it is what every machine has.
int64_t detect() {
  return HWY_STATIC_TARGET;
}
#endif

}  // namespace

int64_t SupportedTargets() {
  static const int64_t detected = detect();
  const int64_t forced = targets_for_test.load();
  // The baseline always stays: a binary can run what it was compiled for.
  return ((forced != 0 ? forced : detected) & enabled_targets.load()) | HWY_STATIC_TARGET;
}

void DisableTargets(int64_t disabled_targets) {
  enabled_targets.store(~disabled_targets);
  GetChosenTarget().DeInit();
}

void SetSupportedTargetsForTest(int64_t targets) {
  targets_for_test.store(targets);
  GetChosenTarget().DeInit();
}

ChosenTarget& GetChosenTarget() {
  static ChosenTarget chosen;
  return chosen;
}

void Abort(const char* file, int line, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  std::fprintf(stderr, "%s:%d: ", file, line);
  std::vfprintf(stderr, format, arguments);
  std::fputc('\n', stderr);
  va_end(arguments);
  std::abort();
}

}  // namespace hwy
