#include "backends/cpu/kernels/gemm/matrix_unit.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <atomic>

#include "backends/cpu/kernels/tile_traits.h"

namespace camshaft::cpu {

namespace {

constexpr int kAsTheMachine = -1;
std::atomic<int> unit_for_test{kAsTheMachine};

struct KnownUnit {
  bool bytes = false, pairs = false;
};

#if defined(__x86_64__) && defined(__linux__)
bool may_use_tiles() {
  // ARCH_REQ_XCOMP_PERM of the state of tiles (<asm/prctl.h> of Linux 5.16). Refused by older kernels, and where a
  // thread's signal stack is too small for it.
  constexpr long request = 0x1023, tile_data = 18;
  return syscall(SYS_arch_prctl, request, tile_data) == 0;
}

KnownUnit detect() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d >> 24 & 1) == 0) return {};
  KnownUnit found{(d >> 25 & 1) != 0, (d >> 22 & 1) != 0};
  // The first palette has eight registers of 1 KiB, in rows of 64 bytes, 16 at most.
  if (!__get_cpuid_count(0x1d, 1, &a, &b, &c, &d)) return {};
  const bool fits = b >> 16 >= 8 && (a >> 16) >= 1024 && (b & 0xffff) >= 64 && (c & 0xffff) >= 16;
  if (!fits || (!found.bytes && !found.pairs) || !may_use_tiles()) return {};
  return found;
}
#else
KnownUnit detect() {
  return {};
}
#endif

MatrixUnit unit(bool KnownUnit::*product) {
  const int chosen = unit_for_test.load(std::memory_order_relaxed);
  if (chosen != kAsTheMachine) return static_cast<MatrixUnit>(chosen);
  static const KnownUnit known = detect();
  // Processors with AMX have AVX-512: with what is below it, they are older ones.
  return tile_traits().bf16_pairs && known.*product ? MatrixUnit::amx : MatrixUnit::none;
}

}  // namespace

MatrixUnit byte_matrix_unit() {
  return unit(&KnownUnit::bytes);
}

MatrixUnit pair_matrix_unit() {
  return unit(&KnownUnit::pairs);
}

void set_matrix_unit_for_test(MatrixUnit unit) {
  unit_for_test.store(static_cast<int>(unit));
}

void reset_matrix_unit_for_test() {
  unit_for_test.store(kAsTheMachine);
}

}  // namespace camshaft::cpu
