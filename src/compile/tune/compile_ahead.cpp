#include "compile/tune/compile_ahead.h"

#include <algorithm>

#include "base/parallel.h"
#include "compile/tune/model_bytes.h"

namespace camshaft {

namespace {

constexpr size_t kernels_a_core = 2;
// Each kernel may hold its layer's weights in a form of its own.
constexpr size_t most_weight_bytes = size_t{1} << 30;

}  // namespace

std::vector<Contestant> CompileAhead::take(size_t e) {
  if (e >= until_) compile_from(e);
  return std::move(compiled_[e]);
}

void CompileAhead::compile_from(size_t first) {
  const auto cores = static_cast<size_t>(std::max(1, backend_.device().cores));
  std::vector<std::pair<size_t, size_t>> jobs;  // an entry and one of its candidates
  size_t bytes = 0;
  for (until_ = first; until_ < entries_.size(); ++until_) {
    const Entry& entry = entries_[until_];
    bytes += entry.candidates.size() * weight_bytes(entry.region);
    if (until_ > first && (jobs.size() >= kernels_a_core * cores || bytes > most_weight_bytes)) break;
    compiled_[until_].resize(entry.candidates.size());
    for (size_t c = 0; c < entry.candidates.size(); ++c) jobs.emplace_back(until_, c);
  }
  for_each_parallel(static_cast<int>(cores), jobs.size(), [&](size_t j) {
    cancellation_.check("compiling tactics");
    if (Clock::now() >= end_) return;
    const auto [e, c] = jobs[j];
    compiled_[e][c] = make_contestant(backend_, entries_[e].region, *entries_[e].candidates[c], threads_);
  });
}

}  // namespace camshaft
