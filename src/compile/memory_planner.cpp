#include "compile/memory_planner.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace camshaft {

namespace {

struct Placed {
  int64_t offset, end;
};

enum class Fit : uint8_t {
  first,     // the lowest gap
  best,      // the tightest gap
  two_ends,  // values of odd steps as high as they fit under the bound, others as low: a chain meets the bound like
             // that
};

// Offsets for one order.
int64_t place(const std::vector<BufferLifetime>& buffers, const std::vector<size_t>& order, int64_t alignment, Fit fit,
              int64_t bound, int64_t give_up_at, std::vector<int64_t>& offsets) {
  std::vector<size_t> placed;
  std::vector<Placed> conflicts;
  int64_t peak = 0;
  for (const size_t b : order) {
    const BufferLifetime& buffer = buffers[b];
    conflicts.clear();
    for (const size_t p : placed)
      if (buffers[p].first <= buffer.last && buffer.first <= buffers[p].last)
        conflicts.push_back({offsets[p], offsets[p] + buffers[p].bytes});
    std::sort(conflicts.begin(), conflicts.end(), [](const Placed& x, const Placed& y) { return x.offset < y.offset; });
    const bool high = fit == Fit::two_ends && buffer.first % 2 != 0;
    int64_t at = 0, best = -1, best_gap = 0;
    for (const Placed& c : conflicts) {
      const int64_t gap = c.offset - at;
      if (gap >= buffer.bytes && (best < 0 || high || (fit == Fit::best && gap < best_gap))) {
        best = high ? (c.offset - buffer.bytes) / alignment * alignment : at;
        best_gap = gap;
        if (fit != Fit::best && !high) break;
      }
      at = std::max(at, (c.end + alignment - 1) / alignment * alignment);
    }
    if (high && bound - at >= buffer.bytes) best = (bound - buffer.bytes) / alignment * alignment;
    if (best < 0) best = at;
    offsets[b] = best;
    peak = std::max(peak, best + buffer.bytes);
    if (peak >= give_up_at) return peak;
    placed.push_back(b);
  }
  return peak;
}

}  // namespace

MemoryPlan plan_memory(const std::vector<BufferLifetime>& buffers, int64_t alignment) {
  MemoryPlan best;
  best.offsets.assign(buffers.size(), 0);
  std::vector<size_t> base;
  int32_t steps = 0;
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (buffers[b].bytes > 0) base.push_back(b);
    steps = std::max(steps, buffers[b].last + 1);
  }
  if (base.empty()) return best;
  const auto aligned = [&](size_t b) { return (buffers[b].bytes + alignment - 1) / alignment * alignment; };
  std::vector<int64_t> change(static_cast<size_t>(steps) + 1, 0);
  for (const size_t b : base) {
    change[static_cast<size_t>(buffers[b].first)] += aligned(b);
    change[static_cast<size_t>(buffers[b].last) + 1] -= aligned(b);
  }
  int64_t alive = 0;
  for (const int64_t c : change) best.lower_bound = std::max(best.lower_bound, alive += c);

  const auto length = [&](size_t b) { return int64_t{buffers[b].last} - buffers[b].first + 1; };
  using Key = std::function<std::pair<int64_t, int64_t>(size_t)>;
  const Key keys[] = {
      [&](size_t b) { return std::pair<int64_t, int64_t>(-buffers[b].bytes, buffers[b].first); },
      [&](size_t b) { return std::pair<int64_t, int64_t>(-length(b), -buffers[b].bytes); },
      [&](size_t b) { return std::pair<int64_t, int64_t>(-buffers[b].bytes * length(b), buffers[b].first); },
      [&](size_t b) { return std::pair<int64_t, int64_t>(buffers[b].first, -buffers[b].bytes); },
      [&](size_t b) { return std::pair<int64_t, int64_t>(-buffers[b].last, -buffers[b].bytes); },
  };
  best.peak = INT64_MAX;
  std::vector<int64_t> offsets(buffers.size(), 0);
  for (const Key& key : keys) {
    std::vector<size_t> order = base;
    std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return key(x) < key(y); });
    for (const Fit fit : {Fit::best, Fit::first, Fit::two_ends}) {
      const int64_t peak = place(buffers, order, alignment, fit, best.lower_bound, best.peak, offsets);
      if (peak >= best.peak) continue;
      best.peak = peak;
      best.offsets = offsets;
      if (best.peak <= best.lower_bound) return best;
    }
  }
  return best;
}

}  // namespace camshaft
