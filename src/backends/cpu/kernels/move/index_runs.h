// Runs of neighbours in a list of indices. Internal to gather.cpp.
#pragma once

#include <algorithm>
#include <cstdint>

namespace camshaft::cpu {

/// Part of a list: evenly spaced indices from `index` on, none of them outside of the axis, or any.
struct IndexRun {
  int64_t first = 0, count = 0;  ///< which of the list
  int64_t index = 0;
  int step = 0;  ///< -1, 0 or 1
  bool is_any = false;
};

/// All runs of 15 and more are found, and some that are shorter; none is shorter than this.
inline constexpr int64_t shortest_run = 8;

/// In a list of so many indices; one in two of them may be of any indices.
constexpr int64_t most_runs(int64_t count) {
  return 2 * (count / shortest_run) + 1;
}

// What is added to indices[k - 1]; modulo 2^64, as lists may hold anything.
template <class Index>
uint64_t step_to(const Index* indices, int64_t k) {
  return static_cast<uint64_t>(int64_t{indices[k]}) - static_cast<uint64_t>(int64_t{indices[k - 1]});
}

// Whether the first `shortest_run` indices are one.
template <class Index>
bool begins_run(const Index* indices) {
  const uint64_t step = step_to(indices, 1);
  if (step + 1 > 2) return false;
  bool even = true;
  for (int64_t k = 2; k < shortest_run; ++k) even &= step_to(indices, k) == step;
  return even;
}

/// Whether at least half of the indices seem to lie in runs, by what 64 places tell.
template <class Index>
bool are_mostly_runs(const Index* indices, int64_t count) {
  constexpr int64_t places = 64;
  const int64_t last = count - shortest_run;
  if (last < 0) return false;
  int64_t found = 0;
  for (int64_t i = 0; i < places; ++i) found += begins_run(indices + last / places * i) ? 1 : 0;
  return 2 * found >= places;
}

/// Cuts a list into runs, which it writes in its order, and returns their number, at most most_runs(count).
template <class Index>
int64_t find_runs(const Index* indices, int64_t count, int64_t size, IndexRun* runs) {
  int64_t found = 0, done = 0;
  const auto add_others_before = [&](int64_t end) {
    if (end > done) runs[found++] = {done, end - done, 0, 0, true};
  };
  const auto is_inside = [&](int64_t index) { return index >= 0 && index < size; };
  for (int64_t k = 0; k + shortest_run <= count;) {
    if (!begins_run(indices + k)) {
      k += shortest_run;
      continue;
    }
    const uint64_t step = step_to(indices, k + 1);
    int64_t begin = k, end = k + shortest_run;
    while (begin > done && step_to(indices, begin) == step) --begin;
    while (end < count && step_to(indices, end) == step) ++end;
    k = end;
    if (!is_inside(indices[begin]) || !is_inside(indices[end - 1])) continue;  // one by one: some count from the end
    add_others_before(begin);
    runs[found++] = {begin, end - begin, indices[begin], static_cast<int>(static_cast<int64_t>(step)), false};
    done = end;
  }
  add_others_before(count);
  return found;
}

}  // namespace camshaft::cpu
