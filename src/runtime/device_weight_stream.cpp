#include "runtime/device_weight_stream.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace camshaft {

DeviceWeightStream::DeviceWeightStream(const Backend& backend, const WeightImage& image, WeightBlocks blocks,
                                       StreamingPlan plan)
    : WeightStream(std::move(blocks), std::move(plan)),
      copies_(backend.make_queue()),
      place_(places_in_window(blocks_.steps, plan_)) {
  for (const std::vector<uint32_t>& step : blocks_.steps) {
    std::vector<uint32_t>& coming = coming_.emplace_back();
    std::copy_if(step.begin(), step.end(), std::back_inserter(coming), [&](uint32_t b) { return place_[b] >= 0; });
  }
  live_.block.assign(plan_.window, -1);
  memory_ = copies_->allocate_blocks(place_, blocks_.block_bytes, "the weights of an engine within its budget");
  run_is_done_ = copies_->make_event();
  copies_are_done_ = copies_->make_event();
  recording_begins_ = copies_->make_event();
  fill(image);
}

DeviceWeightStream::~DeviceWeightStream() {
  try {
    copies_->synchronize();
  } catch (const Error&) {  // nobody asks any more
  }
}

void DeviceWeightStream::fill(const WeightImage& image) {
  const size_t block_bytes = blocks_.block_bytes;
  pinned_at_.assign(place_.size(), 0);
  size_t pinned = 0;
  for (size_t b = 0; b < place_.size(); ++b)
    if (place_[b] >= 0) {
      pinned_at_[b] = pinned;
      pinned += block_bytes;
    }
  pinned_ = copies_->allocate_pinned(pinned, "the weights of an engine that come to the device");
  for (const WeightImage::Part& part : image.parts)
    for (size_t at = 0; at < part.bytes.size();) {
      const size_t block = (part.offset + at) / block_bytes, within = (part.offset + at) % block_bytes;
      const size_t bytes = std::min(block_bytes - within, part.bytes.size() - at);
      if (place_[block] >= 0) {
        std::memcpy(pinned_.get() + pinned_at_[block] + within, part.bytes.data() + at, bytes);
      } else {
        copies_->copy_to_device(memory_.get() + part.offset + at, part.bytes.subspan(at, bytes));
      }
      at += bytes;
    }
  copies_->synchronize();
}

StreamCounts DeviceWeightStream::counts() const {
  const std::lock_guard lock(counts_mutex_);
  const auto block = static_cast<int64_t>(blocks_.block_bytes);
  return {(static_cast<int64_t>(plan_.staying) + brought_blocks_) * block,
          static_cast<int64_t>(plan_.staying + plan_.window) * block, 0};
}

void DeviceWeightStream::close() {
  turns_.take({});
  turns_.give();
}

void DeviceWeightStream::take_turn(const Cancellation& cancellation, DeviceQueue* queue) {
  turns_.take(cancellation);
  computes_ = queue;
}

DeviceWeightStream::Window DeviceWeightStream::empty_window(size_t first_step) const {
  return {std::vector<int32_t>(plan_.window, -1), std::vector<int64_t>(plan_.window, -1), first_step, -1};
}

void DeviceWeightStream::begin(std::span<const int32_t> steps) {
  steps_.assign(steps.begin(), steps.end());
  stops_.clear();
  is_brought_.assign(steps.size(), false);
  // All that a run may need, as nothing is made while steps are recorded.
  for (std::vector<StepEvents>* const events : {&events_, &recorded_events_}) {
    if (events->size() < steps.size()) events->resize(steps.size());
    for (size_t s = 0; s < steps.size(); ++s)
      for (std::unique_ptr<DeviceEvent>* const event : {&(*events)[s].brought, &(*events)[s].done})
        if (!*event && !coming(s).empty()) *event = copies_->make_event();
  }
  live_.needed_until.assign(plan_.window, -1);
  live_.brought = 0;
  live_.copies_wait_for = -1;
  // The run before may have been another context's, in another queue.
  computes_->wait_for(*copies_are_done_);
  copies_->wait_for(*run_is_done_);
}

void DeviceWeightStream::stop_ahead(std::span<const size_t> steps) {
  stops_.assign(steps.begin(), steps.end());
}

void DeviceWeightStream::await(size_t step, const Cancellation&) {
  Window& w = window();
  while (w.brought <= step) bring(w, w.brought++);
  if (is_brought_[step]) computes_->wait_for(*events(step).brought);
}

void DeviceWeightStream::done(size_t step) {
  if (!coming(step).empty()) computes_->record(*events(step).done);
  size_t end = steps_.size();
  if (is_recording_) {
    end = recorded_end_;
  } else if (const auto stop = std::upper_bound(stops_.begin(), stops_.end(), step); stop != stops_.end()) {
    end = *stop;
  }
  Window& w = window();
  while (w.brought < end && can_bring(w, w.brought, step)) bring(w, w.brought++);
}

// Whether all that reads what it replaces is in the queue: the steps up to `done` are.
bool DeviceWeightStream::can_bring(const Window& window, size_t step, size_t done) const {
  const std::vector<uint32_t>& blocks = coming(step);
  return std::all_of(blocks.begin(), blocks.end(), [&](uint32_t block) {
    const auto place = static_cast<size_t>(place_[block]);
    return window.block[place] == static_cast<int32_t>(block) ||
           window.needed_until[place] <= static_cast<int64_t>(done);
  });
}

void DeviceWeightStream::bring(Window& window, size_t step) {
  const size_t block_bytes = blocks_.block_bytes;
  int64_t last_reader = -1;
  bool copies = false;
  for (const uint32_t block : coming(step)) {
    const auto place = static_cast<size_t>(place_[block]);
    if (window.block[place] == static_cast<int32_t>(block)) continue;
    copies = true;
    last_reader = std::max(last_reader, window.needed_until[place]);
  }
  is_brought_[step] = copies;
  if (copies && is_recording_ && !has_forked_) {
    copies_->wait_for(*recording_begins_);
    has_forked_ = true;
  }
  if (last_reader > window.copies_wait_for) {
    copies_->wait_for(*events(static_cast<size_t>(last_reader)).done);
    window.copies_wait_for = last_reader;
  }
  int64_t brought = 0;
  for (const uint32_t block : coming(step)) {
    const auto place = static_cast<size_t>(place_[block]);
    window.needed_until[place] = static_cast<int64_t>(step);
    if (window.block[place] == static_cast<int32_t>(block)) continue;
    window.block[place] = static_cast<int32_t>(block);
    // Block by block, as each has memory of its own.
    copies_->copy_to_device(memory_.get() + block * block_bytes, {pinned_.get() + pinned_at_[block], block_bytes});
    ++brought;
  }
  if (!copies) return;
  copies_->record(*events(step).brought);
  if (is_recording_) return;
  const std::lock_guard lock(counts_mutex_);
  brought_blocks_ += brought;
}

void DeviceWeightStream::start_recording(size_t step, size_t count) {
  recorded_ = empty_window(step);
  recorded_end_ = step + count;
  is_recording_ = true;
  has_forked_ = false;
  computes_->record(*recording_begins_);
}

void DeviceWeightStream::finish_recording() {
  is_recording_ = false;
}

void DeviceWeightStream::before_replay() {
  copies_->record(*copies_are_done_);
  computes_->wait_for(*copies_are_done_);
}

void DeviceWeightStream::replayed(size_t step, size_t count) {
  Window after = empty_window(step);
  int64_t brought = 0;
  for (size_t s = step; s < step + count; ++s)
    for (const uint32_t block : coming(s)) {
      int32_t& there = after.block[static_cast<size_t>(place_[block])];
      if (there == static_cast<int32_t>(block)) continue;
      there = static_cast<int32_t>(block);
      ++brought;
    }
  for (size_t place = 0; place < after.block.size(); ++place)
    if (after.block[place] >= 0) live_.block[place] = after.block[place];
  live_.needed_until.assign(plan_.window, -1);
  live_.brought = std::max(live_.brought, step + count);
  live_.copies_wait_for = static_cast<int64_t>(step + count) - 1;
  computes_->record(*run_is_done_);
  copies_->wait_for(*run_is_done_);
  const std::lock_guard lock(counts_mutex_);
  brought_blocks_ += brought;
}

void DeviceWeightStream::end(size_t) noexcept {
  is_recording_ = false;
  try {
    computes_->record(*run_is_done_);
    copies_->record(*copies_are_done_);
  } catch (const Error&) {  // the device does nothing any more, and the next run says so
  }
  turns_.give();
}

}  // namespace camshaft
