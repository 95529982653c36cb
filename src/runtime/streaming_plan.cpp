#include "runtime/streaming_plan.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "runtime/shrinking_window.h"

namespace camshaft {

namespace {

// Blocks of other steps between two uses of a block from which on it is given up in between.
constexpr size_t blocks_apart = 16;
// That are looked at, at most, evenly up to the largest layer.
constexpr size_t levels = 256;

// In [0, 1): the numbers of any rows that follow each other are evenly spaced (van der Corput's sequence).
double evenly_spaced(uint32_t row) {
  double number = 0, half = 0.5;
  for (; row != 0; row >>= 1, half /= 2) number += (row & 1) != 0 ? half : 0;
  return number;
}

class StreamingPlanner {
 public:
  StreamingPlanner(const StepBlocks& steps, size_t blocks, FarUses far_uses)
      : steps_(steps), far_uses_(far_uses), readers_(blocks), is_read_(blocks, false), is_scattered_(blocks, false) {
    std::vector<size_t> read_until(blocks, 0);  // of each block: how many were read by the end of its last use
    size_t read = 0;
    for (size_t s = 0; s < steps.size(); ++s) {
      const std::vector<uint32_t>& step = steps[s];
      for (const uint32_t block : step) {
        readers_[block].push_back(static_cast<uint32_t>(s));
        if (is_read_[block] && read > read_until[block] + blocks_apart) is_scattered_[block] = true;
        is_read_[block] = true;
        read_until[block] = read + step.size();
      }
      read += step.size();
      largest_ = std::max(largest_, step.size());
    }
    if (far_uses == FarUses::stay) is_scattered_ = camshaft::far_uses(steps, blocks);
  }

  /// The plan with the fewest loads within the budget, or the smallest of all.
  StreamingPlan best(size_t budget) const {
    StreamingPlan best;
    const auto is_better = [&](const StreamingPlan& plan) {
      if (best.stays.empty()) return true;
      const bool fits = size(plan) <= budget, best_fits = size(best) <= budget;
      if (fits != best_fits) return fits;
      return fits ? plan.loads < best.loads : size(plan) < size(best);
    };
    for (const bool keeps_scattered : {true, false}) {
      if (!keeps_scattered && far_uses_ == FarUses::stay) break;
      const size_t last = std::min(levels, std::max<size_t>(largest_, 1));
      for (size_t i = 0; i <= last; ++i) {
        StreamingPlan plan = at_level(i * largest_ / last, keeps_scattered);
        if (size(plan) < budget) add_staying(plan, budget);
        if (is_better(plan)) best = std::move(plan);
      }
    }
    return best;
  }

  static size_t size(const StreamingPlan& plan) { return plan.staying + plan.window; }

 private:
  // Of all that come in as many more stay as the budget allows, in one order for all budgets: a larger one keeps what a
  // smaller one does, and brings in no more.
  void add_staying(StreamingPlan& plan, size_t budget) const {
    const std::vector<uint32_t> order = staying_order(plan);
    ShrinkingWindow window(steps_, readers_, plan.stays);
    size_t added = 0;
    for (size_t i = 0; i < order.size() && plan.staying + i < budget; ++i) {
      window.keep(order[i]);
      if (plan.staying + i + 1 + window.size() <= budget) added = i + 1;
    }
    for (size_t i = 0; i < added; ++i) plan.stays[order[i]] = true;
    count(plan);
  }

  // What comes in, in the order in which it is to stay: of each row of blocks that lie side by side an even part, from
  // its start, as what is read at once stays long. Where that is less than a block, rows far from each other are first.
  std::vector<uint32_t> staying_order(const StreamingPlan& plan) const {
    std::vector<uint32_t> coming;
    std::vector<bool> is_listed(plan.stays.size(), false);
    for (const std::vector<uint32_t>& step : steps_)
      for (const uint32_t block : step)
        if (!plan.stays[block] && !is_listed[block]) {
          is_listed[block] = true;
          coming.push_back(block);
        }
    std::vector<std::pair<double, uint32_t>> parts;  // of its row that stays before a block does
    uint32_t row = 0;
    for (size_t first = 0, end = 0; first < coming.size(); first = end, ++row) {
      for (end = first + 1; end < coming.size() && coming[end] == coming[end - 1] + 1;) ++end;
      for (size_t i = first; i < end; ++i)
        parts.emplace_back((static_cast<double>(i - first) + evenly_spaced(row)) / static_cast<double>(end - first),
                           coming[i]);
    }
    std::sort(parts.begin(), parts.end());
    std::transform(parts.begin(), parts.end(), coming.begin(), [](const auto& part) { return part.second; });
    return coming;
  }

  StreamingPlan at_level(size_t level, bool keeps_scattered) const {
    StreamingPlan plan;
    plan.stays.assign(is_read_.size(), false);
    if (keeps_scattered) plan.stays = is_scattered_;
    // The last of one step and the first of the next come in, so that they lie side by side more often.
    bool keeps_first = true;
    for (const std::vector<uint32_t>& step : steps_) {
      size_t coming = 0;
      for (const uint32_t block : step) coming += plan.stays[block] ? 0 : 1;
      if (coming == 0) continue;
      for (size_t i = 0; i < step.size() && coming > level; ++i) {
        const uint32_t block = step[keeps_first ? i : step.size() - 1 - i];
        coming -= plan.stays[block] ? 0 : 1;
        plan.stays[block] = true;
      }
      keeps_first = !keeps_first;
    }
    count(plan);
    return plan;
  }

  void count(StreamingPlan& plan) const {
    plan.staying = static_cast<size_t>(std::count(plan.stays.begin(), plan.stays.end(), true));
    plan.window = plan.loads = 0;
    std::vector<uint32_t> before, now, fresh;
    for (const std::vector<uint32_t>& step : steps_) {
      now.clear();
      std::copy_if(step.begin(), step.end(), std::back_inserter(now), [&](uint32_t b) { return !plan.stays[b]; });
      if (now.empty()) continue;
      fresh.clear();
      std::set_difference(now.begin(), now.end(), before.begin(), before.end(), std::back_inserter(fresh));
      plan.loads += fresh.size();
      plan.window = std::max(plan.window, before.size() + fresh.size());
      std::swap(before, now);
    }
  }

  const StepBlocks& steps_;
  const FarUses far_uses_;
  StepBlocks readers_;  // of each block its steps, in ascending order
  std::vector<bool> is_read_, is_scattered_;
  size_t largest_ = 0;
};

}  // namespace

std::vector<uint32_t> blocks_of(const std::vector<ByteRange>& ranges, size_t block_bytes) {
  std::vector<uint32_t> blocks;
  for (const ByteRange& range : ranges)
    for (size_t b = range.offset / block_bytes; b <= (range.offset + range.bytes - 1) / block_bytes; ++b)
      blocks.push_back(static_cast<uint32_t>(b));
  std::sort(blocks.begin(), blocks.end());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  return blocks;
}

std::vector<bool> far_uses(const StepBlocks& steps, size_t blocks) {
  std::vector<bool> are_far(blocks, false);
  for (;;) {
    std::vector<int64_t> last(blocks, -1), apart(blocks, 0);  // steps between uses
    int64_t now = 0;
    for (const std::vector<uint32_t>& step : steps) {
      if (std::all_of(step.begin(), step.end(), [&](uint32_t b) { return are_far[b]; })) continue;
      for (const uint32_t block : step) {
        if (last[block] >= 0) apart[block] += std::max<int64_t>(now - last[block] - 1, 0);
        last[block] = now;
      }
      ++now;
    }
    int64_t most = 0;
    for (size_t b = 0; b < blocks; ++b) most = are_far[b] ? most : std::max(most, apart[b]);
    if (most == 0) return are_far;
    for (size_t b = 0; b < blocks; ++b) are_far[b] = are_far[b] || 2 * apart[b] >= most;
  }
}

StreamingPlan plan_streaming(const StepBlocks& steps, size_t blocks, size_t budget, FarUses far_uses) {
  const StreamingPlanner planner(steps, blocks, far_uses);
  StreamingPlan plan = planner.best(budget);
  // More than two steps ahead evens out layers that take long and those that do not.
  if (plan.loads > 0 && plan.staying < budget) plan.window = std::max(plan.window, budget - plan.staying);
  return plan;
}

size_t least_blocks(const StepBlocks& steps, size_t blocks, FarUses far_uses) {
  return StreamingPlanner::size(StreamingPlanner(steps, blocks, far_uses).best(0));
}

std::vector<int32_t> places_in_window(const StepBlocks& steps, const StreamingPlan& plan) {
  std::vector<int32_t> places(plan.stays.size(), -1);
  std::deque<int32_t> free;
  for (size_t p = 0; p < plan.window; ++p) free.push_back(static_cast<int32_t>(p));
  std::vector<uint32_t> before, now, left;
  for (const std::vector<uint32_t>& step : steps) {
    now.clear();
    std::copy_if(step.begin(), step.end(), std::back_inserter(now), [&](uint32_t b) { return !plan.stays[b]; });
    if (now.empty()) continue;
    for (const uint32_t block : now) {
      if (places[block] >= 0) continue;
      if (free.empty()) throw Error(ErrorCode::internal, "the window of a streaming plan has no room for its blocks");
      places[block] = free.front();
      free.pop_front();
    }
    left.clear();
    std::set_difference(before.begin(), before.end(), now.begin(), now.end(), std::back_inserter(left));
    for (const uint32_t block : left) free.push_back(places[block]);
    std::swap(before, now);
  }
  return places;
}

}  // namespace camshaft
