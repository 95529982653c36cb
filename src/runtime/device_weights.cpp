#include "runtime/device_weights.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "compile/plan/memory_planner.h"

namespace camshaft {

namespace {

constexpr int64_t device_alignment = 256;

size_t aligned(size_t bytes) {
  return (bytes + device_alignment - 1) / device_alignment * device_alignment;
}

class DeviceStreamingPlanner {
 public:
  DeviceStreamingPlanner(const Plan& plan, DeviceId device) : plan_(plan), bytes_(plan.values.size(), 0) {
    std::vector<int32_t> reader(plan.values.size(), -1);
    std::vector<bool> must_stay(plan.values.size(), false);
    for (size_t s = 0; s < plan.steps.size(); ++s)
      for (const int32_t id : plan.steps[s].inputs) {
        const int32_t root = id < 0 ? -1 : plan.root(id);
        if (root < 0) continue;
        const auto v = static_cast<size_t>(root);
        const PlanValue& value = plan.values[v];
        if (value.storage != Storage::constant || value.device != device || value.constant->bytes() == 0) continue;
        bytes_[v] = aligned(value.constant->bytes());
        must_stay[v] =
            must_stay[v] || plan.steps[s].is_invariant || (reader[v] >= 0 && reader[v] != static_cast<int32_t>(s));
        reader[v] = static_cast<int32_t>(s);
      }
    for (size_t v = 0; v < bytes_.size(); ++v) all_bytes_ += bytes_[v];
    for (size_t s = 0; s < plan.steps.size(); ++s) {
      std::vector<int32_t> own;
      for (size_t v = 0; v < bytes_.size(); ++v)
        if (reader[v] == static_cast<int32_t>(s) && !must_stay[v]) own.push_back(static_cast<int32_t>(v));
      candidates_.insert(candidates_.end(), own.begin(), own.end());
      if (!own.empty()) groups_.push_back({static_cast<int32_t>(s), std::move(own)});
    }
  }

  size_t all_bytes() const { return all_bytes_; }

  DeviceStreamingPlan best(size_t budget) const {
    // The largest stay, so many that what is left for the others is most: they decide the window.
    std::vector<int32_t> by_size = candidates_;
    std::stable_sort(by_size.begin(), by_size.end(), [&](int32_t a, int32_t b) { return bytes(a) > bytes(b); });
    DeviceStreamingPlan best, least;
    std::vector<bool> streams(bytes_.size(), false);
    for (const int32_t id : candidates_) streams[static_cast<size_t>(id)] = true;
    for (size_t stay = 0; stay <= by_size.size(); ++stay) {
      if (stay > 0) streams[static_cast<size_t>(by_size[stay - 1])] = false;
      if (stay > 0 && stay < by_size.size() && bytes(by_size[stay]) == bytes(by_size[stay - 1])) continue;
      DeviceStreamingPlan plan = with(streams);
      if (least.streams.empty() || size(plan) < size(least)) least = plan;
      if (size(plan) <= budget && (best.streams.empty() || plan.window_bytes < best.window_bytes))
        best = std::move(plan);
    }
    if (best.streams.empty()) return least;
    return filled(std::move(best), budget);
  }

 private:
  size_t bytes(int32_t id) const { return bytes_[static_cast<size_t>(id)]; }
  static size_t size(const DeviceStreamingPlan& plan) { return plan.staying_bytes + plan.window_bytes; }

  // Lets more stay, evenly over the plan, as far as there is room.
  DeviceStreamingPlan filled(DeviceStreamingPlan plan, size_t budget) const {
    size_t room = budget - size(plan);
    const double part = static_cast<double>(room) / static_cast<double>(std::max<size_t>(plan.loads_bytes, 1));
    std::vector<bool> streams = plan.streams;
    double due = 0;
    for (const int32_t id : candidates_) {
      if (!streams[static_cast<size_t>(id)]) continue;
      due += part * static_cast<double>(bytes(id));
      constexpr double rounding = 0.5;
      if (due + rounding < static_cast<double>(bytes(id)) || bytes(id) > room) continue;
      due -= static_cast<double>(bytes(id));
      room -= bytes(id);
      streams[static_cast<size_t>(id)] = false;
    }
    DeviceStreamingPlan more = with(streams);
    return size(more) <= budget ? more : plan;
  }

  DeviceStreamingPlan with(const std::vector<bool>& streams) const {
    DeviceStreamingPlan plan;
    plan.streams = streams;
    plan.offsets.assign(streams.size(), 0);
    std::vector<BufferLifetime> lifetimes;
    std::vector<int32_t> ids;
    for (const DeviceStreamingPlan::Group& all : groups_) {
      DeviceStreamingPlan::Group group{all.step, {}};
      for (const int32_t id : all.values)
        if (streams[static_cast<size_t>(id)]) group.values.push_back(id);
      if (group.values.empty()) continue;
      const auto turn = static_cast<int32_t>(plan.groups.size());
      for (const int32_t id : group.values) {
        lifetimes.push_back({static_cast<int64_t>(bytes(id)), std::max(turn - 1, 0), turn});
        ids.push_back(id);
        plan.loads_bytes += bytes(id);
      }
      plan.groups.push_back(std::move(group));
    }
    const MemoryPlan memory = plan_memory(lifetimes, device_alignment);
    for (size_t i = 0; i < ids.size(); ++i)
      plan.offsets[static_cast<size_t>(ids[i])] = static_cast<size_t>(memory.offsets[i]);
    plan.window_bytes = static_cast<size_t>(memory.peak);
    plan.staying_bytes = all_bytes_ - plan.loads_bytes;
    return plan;
  }

  const Plan& plan_;
  std::vector<size_t> bytes_;  // of each value that is a constant there
  size_t all_bytes_ = 0;
  std::vector<DeviceStreamingPlan::Group> groups_;  // of all that may come in
  std::vector<int32_t> candidates_;                 // the same, in order
};

}  // namespace

size_t device_weight_bytes(const Plan& plan, DeviceId device) {
  return DeviceStreamingPlanner(plan, device).all_bytes();
}

DeviceStreamingPlan plan_device_streaming(const Plan& plan, DeviceId device, size_t budget) {
  return DeviceStreamingPlanner(plan, device).best(budget);
}

DeviceWeights::DeviceWeights(const Plan& plan, DeviceStreamingPlan streaming, DeviceQueue& queue)
    : streaming_(std::move(streaming)),
      memory_(queue.allocate_on_host(streaming_.loads_bytes, "the weights that come in for each run")),
      on_host_(plan.values.size()) {
  std::byte* at = memory_.get();
  for (const DeviceStreamingPlan::Group& group : streaming_.groups)
    for (const int32_t id : group.values) {
      const Tensor& constant = *plan.values[static_cast<size_t>(id)].constant;
      std::memcpy(at, constant.data(), constant.bytes());
      on_host_[static_cast<size_t>(id)] = {at, constant.bytes()};
      at += aligned(constant.bytes());
    }
}

DeviceWeightStream::DeviceWeightStream(std::shared_ptr<const DeviceWeights> weights, DeviceQueue& computing,
                                       std::unique_ptr<DeviceQueue> copying)
    : weights_(std::move(weights)),
      computing_(computing),
      copying_(std::move(copying)),
      memory_(copying_->allocate(weights_->plan().window_bytes, "a context's weights that come in")),
      run_done_(computing_.make_event()) {
  for (size_t g = 0; g < weights_->plan().groups.size(); ++g) {
    here_.push_back(copying_->make_event());
    done_.push_back(computing_.make_event());
  }
}

DeviceWeightStream::~DeviceWeightStream() {
  try {
    copying_->synchronize();
  } catch (const Error&) {  // nobody asks any more
  }
}

std::byte* DeviceWeightStream::place(int32_t value) const {
  const DeviceStreamingPlan& plan = weights_->plan();
  const auto v = static_cast<size_t>(value);
  return plan.streams[v] ? memory_.get() + plan.offsets[v] : nullptr;
}

void DeviceWeightStream::start(const std::vector<bool>& left_out) {
  const DeviceStreamingPlan& plan = weights_->plan();
  turns_.clear();
  for (size_t g = 0; g < plan.groups.size(); ++g)
    if (!left_out[static_cast<size_t>(plan.groups[g].step)]) turns_.push_back(g);
  copied_ = computed_ = 0;
  // After all that was put there before, by a run that failed, too.
  computing_.record(*run_done_);
}

// Groups next to each other lie beside each other, those further away in the same memory.
void DeviceWeightStream::copy(size_t turn) {
  const DeviceStreamingPlan& plan = weights_->plan();
  const size_t group = turns_[turn];
  size_t before = turn;
  while (before > 0 && turns_[before - 1] + 1 >= group) --before;
  copying_->wait_for(before > 0 ? *done_[turns_[before - 1]] : *run_done_);
  for (const int32_t id : plan.groups[group].values) copying_->copy_to_device(place(id), weights_->on_host(id));
  copying_->record(*here_[group]);
}

void DeviceWeightStream::before(size_t step) {
  const DeviceStreamingPlan& plan = weights_->plan();
  if (computed_ == turns_.size() || plan.groups[turns_[computed_]].step != static_cast<int32_t>(step)) return;
  if (copied_ == computed_) copy(copied_++);
  // Where a run leaves out the group between, the next one lies where this one does.
  const bool has_next = copied_ == computed_ + 1 && copied_ < turns_.size();
  if (has_next && turns_[copied_] == turns_[computed_] + 1) copy(copied_++);
  computing_.wait_for(*here_[turns_[computed_]]);
}

void DeviceWeightStream::after(size_t step) {
  const DeviceStreamingPlan& plan = weights_->plan();
  if (computed_ == turns_.size() || plan.groups[turns_[computed_]].step != static_cast<int32_t>(step)) return;
  computing_.record(*done_[turns_[computed_]]);
  ++computed_;
  if (copied_ == computed_ && copied_ < turns_.size()) copy(copied_++);
}

}  // namespace camshaft
