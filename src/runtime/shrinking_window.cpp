#include "runtime/shrinking_window.h"

#include <algorithm>

namespace camshaft {

ShrinkingWindow::ShrinkingWindow(const StepBlocks& steps, const StepBlocks& readers, std::vector<bool> stays)
    : steps_(steps), readers_(readers), stays_(std::move(stays)), list_(steps.size()) {
  size_t most = 0;
  for (const std::vector<uint32_t>& step : steps) most = std::max(most, step.size());
  steps_with_.assign(2 * most + 1, 0);
  steps_with_[0] = steps.size();
  int64_t last = -1;
  for (size_t s = 0; s < steps.size(); ++s) {
    Step& step = list_[s];
    step.coming = static_cast<size_t>(
        std::count_if(steps[s].begin(), steps[s].end(), [&](uint32_t block) { return !stays_[block]; }));
    if (step.coming == 0) continue;
    step.before = last;
    if (last >= 0) list_[static_cast<size_t>(last)].after = static_cast<int64_t>(s);
    last = static_cast<int64_t>(s);
    set_together(step, with_the_step_before(s));
  }
}

size_t ShrinkingWindow::size() {
  while (largest_ > 0 && steps_with_[largest_] == 0) --largest_;
  return largest_;
}

void ShrinkingWindow::keep(uint32_t block) {
  const std::vector<uint32_t>& readers = readers_[block];
  for (const uint32_t reader : readers) {
    Step& step = list_[reader];
    --step.coming;
    set_together(step, step.together - 1);
    if (step.after < 0 || std::binary_search(readers.begin(), readers.end(), static_cast<uint32_t>(step.after)))
      continue;
    Step& after = list_[static_cast<size_t>(step.after)];
    set_together(after, after.together - 1);
  }
  stays_[block] = true;
  for (const uint32_t reader : readers)
    if (list_[reader].coming == 0) leave_out(reader);
}

size_t ShrinkingWindow::with_the_step_before(size_t s) const {
  size_t together = list_[s].coming;
  if (list_[s].before < 0) return together;
  for (const uint32_t block : steps_[static_cast<size_t>(list_[s].before)])
    together += stays_[block] || std::binary_search(steps_[s].begin(), steps_[s].end(), block) ? 0 : 1;
  return together;
}

void ShrinkingWindow::set_together(Step& step, size_t together) {
  --steps_with_[step.together];
  ++steps_with_[together];
  step.together = together;
  largest_ = std::max(largest_, together);
}

void ShrinkingWindow::leave_out(size_t s) {
  const Step step = list_[s];
  set_together(list_[s], 0);
  if (step.before >= 0) list_[static_cast<size_t>(step.before)].after = step.after;
  if (step.after < 0) return;
  Step& after = list_[static_cast<size_t>(step.after)];
  after.before = step.before;
  set_together(after, with_the_step_before(static_cast<size_t>(step.after)));
}

}  // namespace camshaft
