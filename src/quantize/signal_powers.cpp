#include "quantize/signal_powers.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backends/cpu/kernels/reduce/reduce_rows.h"

namespace camshaft {

namespace {

// Sums of each block are added up in the blocks' order, whichever threads made them.
constexpr int64_t block = 4096;

double sum_of_finite_squares(const float* x, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i)
    if (std::isfinite(x[i])) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}

}  // namespace

void SignalPowers::add(const float* x, int64_t count, ThreadPool& pool) {
  if (count == 0) return;
  const int64_t blocks = (count + block - 1) / block;
  std::vector<double> sums(static_cast<size_t>(blocks), 0);
  constexpr int64_t grain = 4;  // 64 KB, for which waking a thread pays
  pool.parallel_for(blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const float* from = x + b * block;
      const int64_t length = std::min(block, count - b * block);
      double& sum = sums[static_cast<size_t>(b)];
      cpu::reduce_rows<float>(cpu::ReduceKind::sum_square, from, 1, length, &sum);
      if (!std::isfinite(sum)) sum = sum_of_finite_squares(from, length);
    }
  });
  const double power = std::accumulate(sums.begin(), sums.end(), 0.0) / static_cast<double>(count);
  if (power > 0) powers_.push_back(power);
}

double SignalPowers::noise(double step, double part) const {
  if (powers_.empty()) return 0;
  const double noise = part * step * step / 12;
  double sum = 0;
  for (const double power : powers_) sum += std::min(1.0, noise / power);
  return sum / static_cast<double>(powers_.size());
}

}  // namespace camshaft
