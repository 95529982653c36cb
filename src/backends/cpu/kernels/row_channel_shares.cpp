#include "backends/cpu/kernels/row_channel_shares.h"

#include <algorithm>

#include "base/divide_up.h"

namespace camshaft::cpu {

RowChannelShares::RowChannelShares(int64_t rows, int64_t channels, double overlap, int threads, int64_t grain)
    : rows_(rows), channels_(channels), grain_(grain) {
  // A further part of the channels has to be worth it: rows are read and written in longer runs without.
  constexpr double gain = 0.97;
  const int64_t grains = divide_up(channels, grain);
  double best = 0;
  for (int64_t parts = 1; parts <= std::min<int64_t>(threads, grains); ++parts) {
    const int64_t others = std::min<int64_t>(threads / parts, std::max<int64_t>(rows, 1));
    const double own_rows = static_cast<double>(divide_up(rows, others)) + (others > 1 ? overlap : 0);
    const double cost = own_rows * static_cast<double>(divide_up(grains, parts));
    if (parts > 1 && cost >= gain * best) continue;
    best = cost;
    row_parts_ = others;
    channel_parts_ = parts;
  }
}

RowChannelShare RowChannelShares::share(int thread) const {
  const int64_t r = thread / channel_parts_, c = thread % channel_parts_;
  if (r >= row_parts_) return {};
  const int64_t grains = divide_up(channels_, grain_);
  return {rows_ * r / row_parts_, rows_ * (r + 1) / row_parts_,
          std::min(channels_, grains * c / channel_parts_ * grain_),
          std::min(channels_, grains * (c + 1) / channel_parts_ * grain_)};
}

}  // namespace camshaft::cpu
