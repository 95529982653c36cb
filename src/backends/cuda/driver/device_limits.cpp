#include "backends/cuda/driver/device_limits.h"

namespace camshaft::cuda {

DeviceLimits limits_of(const DeviceFacts& facts) {
  DeviceLimits limits{.memory_bytes = facts.memory_bytes_per_second};
  const ArithmeticRates& rates = facts.features.rates;
  const double multiprocessor_cycles = facts.hertz * facts.multiprocessors;
  limits.f32_flops = 2 * rates.f32 * multiprocessor_cycles;
  limits.half_flops = 2 * rates.half * multiprocessor_cycles;
  limits.tf32_flops = 2 * rates.tf32 * multiprocessor_cycles;
  return limits;
}

}  // namespace camshaft::cuda
