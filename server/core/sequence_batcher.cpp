#include "server/core/sequence_batcher.h"

#include <algorithm>
#include <cmath>

#include "server/core/batch_queue.h"
#include "server/core/status.h"

namespace camshaft::server {

SequenceBatcher::Rules SequenceBatcher::make_rules(const ModelConfig& config) {
  const auto& batching = config.sequence_batching();
  const auto limited = [](uint64_t microseconds) {
    return std::chrono::microseconds(std::min<uint64_t>(microseconds, uint64_t{1} << 52));
  };
  Rules rules;
  rules.max_batch = std::max(1, config.max_batch_size());
  rules.slots = static_cast<size_t>(rules.max_batch);
  rules.iterative = batching.iterative_sequence();
  if (batching.max_sequence_idle_microseconds() > 0) rules.idle = limited(batching.max_sequence_idle_microseconds());
  if (batching.has_oldest()) {
    const auto& oldest = batching.oldest();
    if (oldest.max_candidate_sequences() > 0) rules.slots = static_cast<size_t>(oldest.max_candidate_sequences());
    for (const int32_t size : oldest.preferred_batch_size()) {
      if (size < 1 || size > rules.max_batch)
        throw ServerError(StatusCode::invalid_argument,
                          "model '" + config.name() +
                              "': sequence batching preferred size must be positive and <= "
                              "max_batch_size, it is " +
                              std::to_string(size));
      rules.preferred.insert(size);
    }
    rules.max_delay = limited(oldest.max_queue_delay_microseconds());
    rules.enough = rules.preferred.empty() ? rules.max_batch : *rules.preferred.rbegin();
  } else {
    rules.max_delay = limited(batching.direct().max_queue_delay_microseconds());
    const float share = batching.direct().minimum_slot_utilization();
    rules.enough = std::clamp<int64_t>(static_cast<int64_t>(std::ceil(share * static_cast<float>(rules.slots))), 1,
                                       rules.max_batch);
  }
  return rules;
}

SequenceBatcher::SequenceBatcher(std::vector<PlacedInstance> instances, const ModelConfig& config,
                                 const Signature& signature, const std::filesystem::path& folder,
                                 ModelStatistics& statistics, std::shared_ptr<RateLimiter> limiter,
                                 std::vector<RateLimiter::Claim> claims)
    : rules_(make_rules(config)),
      model_(config.name()),
      tensors_(config, signature, folder),
      statistics_(statistics),
      limiter_(std::move(limiter)),
      claims_(std::move(claims)),
      used_(instances.size(), 0),
      instances_(std::move(instances)) {
  for (size_t i = 0; i < instances_.size(); ++i) wake_.push_back(std::make_unique<std::condition_variable>());
  try {
    for (size_t i = 0; i < instances_.size(); ++i) threads_.emplace_back([this, i] { serve(i); });
  } catch (...) {  // the system has no more threads
    end();
    throw;
  }
}

SequenceBatcher::~SequenceBatcher() {
  end();
}

void SequenceBatcher::end() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  for (const auto& wake : wake_) wake->notify_all();
  for (std::thread& thread : threads_) thread.join();
}

// A request of an iterative model that belongs to no sequence is one.
SequenceBatcher::Key SequenceBatcher::key_of(Request& request) {
  const bool own = rules_.iterative && !request.sequence.defined();
  if (own) {
    do ++last_own_;
    while (sequences_.contains({false, {last_own_, {}}}));  // the model tells them apart by numbers alone
    request.sequence.number = last_own_;
    request.sequence_start = true;
    request.sequence_end = false;
  }
  return {own, request.sequence};
}

void SequenceBatcher::submit(PendingPtr& pending) {
  Request& request = pending->request;
  if (!request.sequence.defined() && !rules_.iterative)
    throw ServerError(StatusCode::invalid_argument, "inference request to model '" + model_ +
                                                        "' must specify a non-zero or non-empty correlation ID");
  if (pending->batch != 1)
    throw ServerError(StatusCode::invalid_argument, "inference request to model '" + model_ +
                                                        "' must specify batch-size 1 due to requirements of sequence "
                                                        "batcher");
  const std::lock_guard lock(mutex_);
  const Key key = key_of(request);
  auto at = sequences_.find(key);
  const bool in_progress = at != sequences_.end() && !at->second.ends;
  if (!in_progress && !request.sequence_start)
    throw ServerError(
        StatusCode::invalid_argument,
        "inference request for sequence " +
            (request.sequence.text.empty() ? std::to_string(request.sequence.number) : request.sequence.text) +
            " to model '" + model_ + "' must specify the START flag on the first request of the sequence");
  if (at == sequences_.end()) {
    at = sequences_.try_emplace(key).first;
    backlog_.push_back(key);
  }
  Sequence& sequence = at->second;
  sequence.ends = request.sequence_end;
  sequence.last = Clock::now();
  sequence.waiting.push_back(std::move(pending));
  statistics_.request_queued();
  give_slots();
  if (sequence.has_slot) wake_[sequence.instance]->notify_one();
}

// Sequences that wait get free slots, those of the emptiest instance first.
void SequenceBatcher::give_slots() {
  while (!backlog_.empty()) {
    const auto emptiest = std::min_element(used_.begin(), used_.end());
    if (*emptiest >= rules_.slots) return;
    Sequence& sequence = sequences_.at(backlog_.front());
    backlog_.pop_front();
    sequence.has_slot = true;
    sequence.instance = static_cast<size_t>(emptiest - used_.begin());
    ++*emptiest;
    wake_[sequence.instance]->notify_one();
  }
}

void SequenceBatcher::end_idle(size_t index, Clock::time_point now, std::optional<Clock::time_point>& wake) {
  bool freed = false;
  for (auto at = sequences_.begin(); at != sequences_.end();) {
    const Sequence& sequence = at->second;
    if (!sequence.has_slot || sequence.instance != index || sequence.running || !sequence.waiting.empty()) {
      ++at;
      continue;
    }
    const Clock::time_point until = sequence.last + rules_.idle;
    if (until > now) {
      wake = std::min(wake.value_or(until), until);
      ++at;
      continue;
    }
    at = sequences_.erase(at);
    --used_[index];
    freed = true;
  }
  if (freed) give_slots();
}

std::vector<SequenceBatcher::Entry*> SequenceBatcher::choose(size_t index, Clock::time_point now,
                                                             std::optional<Clock::time_point>& wake) {
  std::vector<Entry*> ready;
  for (Entry& entry : sequences_)
    if (entry.second.has_slot && entry.second.instance == index && !entry.second.running &&
        !entry.second.waiting.empty())
      ready.push_back(&entry);
  if (ready.empty()) return ready;
  const auto arrival = [](const Entry* entry) { return entry->second.waiting.front()->request.timeline.queued; };
  std::stable_sort(ready.begin(), ready.end(), [&](const Entry* a, const Entry* b) { return arrival(a) < arrival(b); });
  const Clock::time_point oldest = arrival(ready.front());
  const Pending& first = *ready.front()->second.waiting.front();
  std::erase_if(ready, [&](const Entry* entry) { return !fit_together(first, *entry->second.waiting.front()); });
  if (static_cast<int64_t>(ready.size()) > rules_.max_batch) ready.resize(static_cast<size_t>(rules_.max_batch));
  const auto size = static_cast<int64_t>(ready.size());
  const bool may_wait = rules_.max_delay.count() > 0 && now < oldest + rules_.max_delay && !ending_;
  if (may_wait && size < rules_.enough && !rules_.preferred.contains(size)) {
    wake = std::min(wake.value_or(oldest + rules_.max_delay), oldest + rules_.max_delay);
    ready.clear();
  }
  return ready;
}

void SequenceBatcher::drop_cancelled(size_t index, std::unique_lock<std::mutex>& lock) {
  std::vector<PendingPtr> out;
  for (auto at = sequences_.begin(); at != sequences_.end();) {
    Sequence& sequence = at->second;
    const size_t before = out.size();
    if (sequence.has_slot && sequence.instance == index && !sequence.running)
      while (!sequence.waiting.empty() && sequence.waiting.front()->request.cancellation.cancelled()) {
        out.push_back(std::move(sequence.waiting.front()));
        sequence.waiting.pop_front();
        sequence.ends &= !sequence.waiting.empty();
      }
    if (rules_.iterative && out.size() > before && sequence.waiting.empty()) {  // nothing more comes of it
      at = sequences_.erase(at);
      --used_[index];
    } else {
      ++at;
    }
  }
  if (out.empty()) return;
  give_slots();
  lock.unlock();
  for (const PendingPtr& pending : out) {
    statistics_.request_left_queue();
    pending->fail({StatusCode::cancelled, "request is cancelled"}, FailureReason::cancelled);
  }
  lock.lock();
}

void SequenceBatcher::prepare(Entry& entry, std::vector<PendingPtr>& batch, std::vector<Taken>& taken) {
  Sequence& sequence = entry.second;
  PendingPtr pending = std::move(sequence.waiting.front());
  sequence.waiting.pop_front();
  sequence.running = true;
  statistics_.request_left_queue();
  const bool start = pending->request.sequence_start, end = pending->request.sequence_end;
  if (start || sequence.states.empty()) sequence.states = tensors_.initial_states();
  auto states = std::make_shared<std::vector<NamedTensor>>(sequence.states);
  auto again = rules_.iterative ? std::make_shared<PendingPtr>() : nullptr;
  taken.push_back({entry.first, end || rules_.iterative, again, states});
  try {
    tensors_.add(*pending, start, end, sequence.states);
  } catch (...) {
    pending->fail(current_exception_status(), FailureReason::other);
    return;
  }
  pending->keep = [states](size_t index, NamedTensor tensor) {
    tensor.name = (*states)[index].name;
    (*states)[index] = std::move(tensor);
  };
  if (again) pending->reschedule = [again](PendingPtr given_back) { *again = std::move(given_back); };
  batch.push_back(std::move(pending));
}

// After a run: what the model gave back waits again, first of its sequence; what ended gives up its slot.
void SequenceBatcher::finish(Taken& taken) {
  const auto at = sequences_.find(taken.key);
  Sequence& sequence = at->second;
  sequence.running = false;
  sequence.last = Clock::now();
  sequence.states = std::move(*taken.states);
  if (taken.again && *taken.again) {
    PendingPtr& pending = *taken.again;
    pending->request.sequence_start = pending->request.sequence_end = false;
    pending->reschedule = nullptr;  // which has the pointer that it lies in
    sequence.waiting.push_front(std::move(pending));
    statistics_.request_queued();
    return;
  }
  if (!taken.end) return;
  sequence.states.clear();
  if (!sequence.waiting.empty()) return;  // it starts again, in the slot that it has
  --used_[sequence.instance];
  sequences_.erase(at);
}

void SequenceBatcher::serve(size_t index) {
  const auto group = static_cast<size_t>(instances_[index].group);
  const RateLimiter::Claim claim = limiter_ && group < claims_.size() ? claims_[group] : RateLimiter::Claim();
  uint64_t executions = 0;
  bool holds = false;  // what its claim names
  std::unique_lock lock(mutex_);
  for (;;) {
    const Clock::time_point now = Clock::now();
    std::optional<Clock::time_point> wake;
    drop_cancelled(index, lock);
    end_idle(index, now, wake);
    const std::vector<Entry*> ready = choose(index, now, wake);
    if (ready.empty() && holds) {
      limiter_->release(claim);
      holds = false;
    }
    if (ready.empty()) {
      if (ending_ && !wake) return;
      if (ending_) {
        const bool waits = std::any_of(sequences_.begin(), sequences_.end(), [&](const Entry& entry) {
          return entry.second.instance == index && !entry.second.waiting.empty();
        });
        if (!waits) return;
      }
      if (wake)
        wake_[index]->wait_until(lock, *wake);
      else
        wake_[index]->wait(lock);
      continue;
    }
    std::vector<PendingPtr> batch;
    std::vector<Taken> taken;
    for (Entry* entry : ready) prepare(*entry, batch, taken);
    lock.unlock();
    if (!batch.empty()) {
      if (holds) limiter_->renew(claim, executions);
      if (limiter_ && !holds) limiter_->acquire(claim, executions);
      holds = limiter_ != nullptr;
      instances_[index].instance->run(std::move(batch));
    }
    lock.lock();
    for (Taken& each : taken) finish(each);
    give_slots();
  }
}

}  // namespace camshaft::server
