#include "backends/cuda/driver/device_limits.h"

#include <algorithm>
#include <iterator>

namespace camshaft::cuda {

namespace {

/// Multiply-adds of one multiprocessor in a clock cycle.
struct Rates {
  int capability, f32, half, tf32;
};

constexpr Rates all_rates[] = {
    {75, 64, 512, 0},        // T4
    {80, 64, 1024, 512},     // A100
    {86, 128, 512, 256},     // A10
    {87, 128, 512, 256},     // Orin
    {89, 128, 512, 256},     // L4
    {90, 128, 2048, 1024},   // H100, H200
    {100, 128, 4096, 2048},  // B200
    {103, 128, 4096, 2048},  // B300
    {120, 128, 512, 256},    // RTX PRO 6000
};

}  // namespace

DeviceLimits limits_of(const DeviceFacts& facts) {
  DeviceLimits limits{.memory_bytes = facts.memory_bytes_per_second};
  const auto rates = std::find_if(std::begin(all_rates), std::end(all_rates),
                                  [&](const Rates& r) { return r.capability == facts.capability; });
  if (rates == std::end(all_rates)) return limits;
  const double multiprocessor_cycles = facts.hertz * facts.multiprocessors;
  limits.f32_flops = 2 * rates->f32 * multiprocessor_cycles;
  limits.half_flops = 2 * rates->half * multiprocessor_cycles;
  limits.tf32_flops = 2 * rates->tf32 * multiprocessor_cycles;
  return limits;
}

}  // namespace camshaft::cuda
