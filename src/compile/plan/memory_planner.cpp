#include "compile/plan/memory_planner.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/random.h"

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

// Where no order meets the bound: some 40 ms at most (1000 buffers), once for each set of shapes. In the zoo it takes
// under 1 ms.
constexpr size_t most_attempts = 400;
constexpr size_t most_placements = 60'000;

// Swaps buffers of the order that live while the topmost one does, now and then with any other, and keeps what makes
// the peak no higher: the idea of Arm's Vela compiler ("HillClimb").
void climb(const std::vector<BufferLifetime>& buffers, std::vector<size_t> order, int64_t alignment, Fit fit,
           int64_t goal, MemoryPlan& best) {
  std::vector<int64_t> offsets = best.offsets, tried(buffers.size(), 0);
  int64_t peak = best.peak;
  Random random(1);
  const auto draw = [&](size_t below) {
    return static_cast<size_t>(random.integer(0, static_cast<int64_t>(below) - 1));
  };
  const size_t attempts = std::min(most_attempts, most_placements / order.size());
  std::vector<size_t> near;  // positions in the order
  for (size_t attempt = 0; attempt < attempts && best.peak > goal; ++attempt) {
    size_t top = 0;
    for (const size_t b : order)
      if (offsets[b] + buffers[b].bytes == peak) top = b;
    near.clear();
    for (size_t i = 0; i < order.size(); ++i) {
      const BufferLifetime& buffer = buffers[order[i]];
      if (buffer.first <= buffers[top].last && buffers[top].first <= buffer.last) near.push_back(i);
    }
    std::vector<size_t> changed = order;
    std::swap(changed[near[draw(near.size())]], changed[draw(4) == 0 ? draw(order.size()) : near[draw(near.size())]]);
    const int64_t reached = place(buffers, changed, alignment, fit, goal, peak + 1, tried);
    if (reached > peak) continue;
    order = std::move(changed);
    offsets = tried;
    peak = reached;
    if (peak < best.peak) {
      best.peak = peak;
      best.offsets = offsets;
    }
  }
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
  const auto most_alive = [&](const auto& bytes) {
    std::vector<int64_t> change(static_cast<size_t>(steps) + 1, 0);
    for (const size_t b : base) {
      change[static_cast<size_t>(buffers[b].first)] += bytes(b);
      change[static_cast<size_t>(buffers[b].last) + 1] -= bytes(b);
    }
    int64_t alive = 0, most = 0;
    for (const int64_t c : change) most = std::max(most, alive += c);
    return most;
  };
  best.lower_bound = most_alive([&](size_t b) { return buffers[b].bytes; });
  const int64_t goal = most_alive(aligned);  // what is between the two, alignment takes

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
  std::vector<size_t> best_order;
  Fit best_fit = Fit::best;
  for (const Key& key : keys) {
    std::vector<size_t> order = base;
    std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) { return key(x) < key(y); });
    for (const Fit fit : {Fit::best, Fit::first, Fit::two_ends}) {
      const int64_t peak = place(buffers, order, alignment, fit, goal, best.peak, offsets);
      if (peak >= best.peak) continue;
      best.peak = peak;
      best.offsets = offsets;
      best_order = order;
      best_fit = fit;
      if (best.peak <= goal) return best;
    }
  }
  climb(buffers, std::move(best_order), alignment, best_fit, goal, best);
  return best;
}

}  // namespace camshaft
