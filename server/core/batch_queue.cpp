#include "server/core/batch_queue.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "server/core/status.h"

namespace camshaft::server {

namespace {

// A target leaves so much of itself for what is no run: the way to the client and threads that come late.
constexpr double usable_share = 0.9;
// A smaller batch in place of one that is too late for its oldest request must do so much of its work in the same time:
// else all that wait become late for the sake of one.
constexpr double least_pace = 0.75;
// What waits is best done soon, each request by itself and all of it: the end of all weighs so much more than the mean
// of the ends, as what comes meanwhile waits for it. Found by simulation: without it loads near the peak take larger
// batches than they get, with more of it requests wait for each other.
constexpr double weight_of_last_end = 3;
// A long queue is not looked through for every batch; who is cancelled is seen at last when he would run.
constexpr std::chrono::milliseconds sweep_interval{5};
// More levels than anyone has; each costs a queue.
constexpr uint64_t most_levels = 1024;

QueuePolicy to_policy(const inference::ModelQueuePolicy& config) {
  QueuePolicy policy;
  policy.delay = config.timeout_action() == inference::ModelQueuePolicy::DELAY;
  policy.default_timeout =
      std::chrono::microseconds(std::min<uint64_t>(config.default_timeout_microseconds(), uint64_t{1} << 52));
  policy.allow_override = config.allow_timeout_override();
  policy.most = config.max_queue_size();
  return policy;
}

bool is_late(const Pending& pending, Clock::time_point now) {
  return pending.deadline <= now;
}

}  // namespace

bool fit_together(const Pending& a, const Pending& b) {
  if (a.shape_key != b.shape_key || a.inputs.size() != b.inputs.size()) return false;
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    if ((a.inputs[i] == nullptr) != (b.inputs[i] == nullptr)) return false;
    if (a.inputs[i] == nullptr || (i < a.ragged.size() && a.ragged[i] >= 0)) continue;
    const auto &left = a.inputs[i]->shape, &right = b.inputs[i]->shape;
    if (left.size() != right.size()) return false;
    if (!left.empty() && !std::equal(left.begin() + 1, left.end(), right.begin() + 1)) return false;
  }
  return true;
}

BatchPolicy make_batch_policy(const ModelConfig& config) {
  const auto refuse = [&](const std::string& message) {
    throw ServerError(StatusCode::invalid_argument, "model '" + config.name() + "': " + message);
  };
  BatchPolicy policy;
  policy.max_batch = std::max(1, config.max_batch_size());
  if (!config.has_dynamic_batching()) {
    policy.max_batch = 1;  // each request is a run of its own
    return policy;
  }
  const auto& batching = config.dynamic_batching();
  for (const int32_t size : batching.preferred_batch_size()) {
    if (size < 1 || size > policy.max_batch)
      refuse("dynamic batching preferred size must be positive and <= max_batch_size, it is " + std::to_string(size));
    policy.preferred.insert(size);
  }
  policy.max_delay =
      std::chrono::microseconds(std::min<uint64_t>(batching.max_queue_delay_microseconds(), uint64_t{1} << 52));
  policy.levels = std::max<uint64_t>(1, batching.priority_levels());
  if (policy.levels > most_levels) refuse("priority_levels must be at most " + std::to_string(most_levels));
  if (batching.priority_levels() > 0) {
    if (batching.default_priority_level() == 0 || batching.default_priority_level() > policy.levels)
      refuse("default_priority_level must be in the range [1, " + std::to_string(policy.levels) + "]");
    policy.default_level = batching.default_priority_level() - 1;
  }
  policy.queues.assign(policy.levels, to_policy(batching.default_queue_policy()));
  for (const auto& [level, queue] : batching.priority_queue_policy()) {
    if (level == 0 || level > policy.levels)
      refuse("priority_queue_policy names the level " + std::to_string(level) + " of " + std::to_string(policy.levels));
    policy.queues[level - 1] = to_policy(queue);
  }
  const auto target = config.parameters().find("latency_target_ms");
  if (target != config.parameters().end()) {
    char* end = nullptr;
    const std::string& text = target->second.string_value();
    const double ms = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0' || !(ms > 0 && ms < 1e6))
      refuse("the parameter latency_target_ms must be a number of milliseconds above 0, it is '" + text + "'");
    policy.latency_target = std::chrono::nanoseconds(static_cast<int64_t>(ms * 1e6));
  }
  return policy;
}

void BatchQueue::push(PendingPtr& pending, Clock::time_point now, std::span<const Clock::time_point> free_at) {
  const uint64_t asked = pending->request.priority;
  if (asked > policy_.levels && policy_.levels > 1)
    throw ServerError(StatusCode::invalid_argument, "the priority " + std::to_string(asked) +
                                                        " is none of the model's levels, 1 to " +
                                                        std::to_string(policy_.levels));
  pending->level = policy_.levels == 1 || asked == 0 ? policy_.default_level : asked - 1;
  const QueuePolicy& queue = policy_.queues[pending->level];
  Level& level = levels_[pending->level];
  if (queue.most > 0 && level.waiting.size() + level.delayed.size() >= queue.most)
    throw ServerError(StatusCode::unavailable, "Exceeds maximum queue size");
  refuse_what_is_late(*pending, now, free_at);
  std::chrono::microseconds timeout = queue.default_timeout;
  if (queue.allow_override && pending->request.timeout_us > 0) {
    const auto own = std::chrono::microseconds(std::min<uint64_t>(pending->request.timeout_us, uint64_t{1} << 52));
    timeout = timeout.count() == 0 ? own : std::min(timeout, own);
  }
  if (timeout.count() > 0) {
    pending->deadline = pending->request.timeline.queued + timeout;
    next_sweep_ = std::min(next_sweep_, pending->deadline);
  }
  if (last_arrival_ != Clock::time_point()) {
    // A pause says nothing of how close requests come when they come.
    const auto gap = std::min<std::chrono::nanoseconds>(now - last_arrival_, std::chrono::milliseconds(100));
    gap_ = gap_.count() == 0 ? gap : gap_ + (gap - gap_) / 8;
  }
  last_arrival_ = now;
  level.elements += pending->batch;
  level.waiting.push_back(std::move(pending));
  ++size_;
}

// When a request is answered that goes behind what waits at its level and above. Where shapes differ batches are
// smaller than they may be: those of late count. Runs that are longer than usual stand beside shorter ones: what is
// added for safety grows with the root of their number.
Clock::time_point BatchQueue::expected_end(const Pending& pending, Clock::time_point now,
                                           std::span<const Clock::time_point> free_at) const {
  int64_t elements = pending.batch;
  for (uint64_t level = 0; level <= pending.level; ++level) elements += levels_[level].elements;
  const int64_t usual = busy_batch_ > 0 ? std::max<int64_t>(1, std::llround(busy_batch_)) : policy_.max_batch;
  const int64_t batches_before = (elements - 1) / usual, last = elements - batches_before * usual;
  const Clock::time_point first_free = std::max(now, *std::min_element(free_at.begin(), free_at.end()));
  Clock::time_point start = first_free;
  if (batches_before > 0) {
    std::chrono::nanoseconds work = batches_before * times_->expected(usual);
    for (const Clock::time_point free : free_at) work += std::max(free - now, Clock::duration(0));
    start = now + work / static_cast<int64_t>(free_at.size());
  }
  const auto runs = static_cast<double>(batches_before + 1 + (first_free > now ? 1 : 0));
  const int64_t longest = batches_before > 0 ? usual : last;
  const auto spread = static_cast<double>((times_->cautious(longest) - times_->expected(longest)).count());
  return start + times_->expected(last) + std::chrono::nanoseconds(static_cast<int64_t>(spread * std::sqrt(runs)));
}

// What would be late is refused: of ten times the load that a model can take, what is accepted is then answered within
// twice the target, though what others do on the machine makes runs longer than foreseen. Where nothing waits a request
// is taken, however long its run is: a target that no run meets refuses nobody.
void BatchQueue::refuse_what_is_late(const Pending& pending, Clock::time_point now,
                                     std::span<const Clock::time_point> free_at) const {
  if (!policy_.latency_target || times_ == nullptr || times_->empty() || free_at.empty() || size_ == 0) return;
  const double took =
      std::chrono::duration<double, std::milli>(expected_end(pending, now, free_at) - pending.request.timeline.queued)
          .count();
  const double target = std::chrono::duration<double, std::milli>(*policy_.latency_target).count();
  if (took <= target) return;
  throw ServerError(StatusCode::resource_exhausted,
                    "the queue is too long: an answer would take " + std::to_string(std::llround(took)) +
                        " ms, latency_target_ms is " + std::to_string(std::llround(target)) + "; try again later");
}

std::optional<Clock::time_point> BatchQueue::sweep(Clock::time_point now, std::vector<PendingPtr>& out) {
  std::optional<Clock::time_point> next;
  const auto leave = [&](Level& level, std::deque<PendingPtr>& queue, auto gone) {
    const auto end = std::stable_partition(queue.begin(), queue.end(), [&](const PendingPtr& p) { return !gone(*p); });
    for (auto at = end; at != queue.end(); ++at) {
      level.elements -= (*at)->batch;
      out.push_back(std::move(*at));
    }
    size_ -= static_cast<size_t>(queue.end() - end);
    queue.erase(end, queue.end());
  };
  for (size_t l = 0; l < levels_.size(); ++l) {
    Level& level = levels_[l];
    const auto cancelled = [](const Pending& p) { return p.request.cancellation.cancelled(); };
    leave(level, level.delayed, cancelled);
    if (policy_.queues[l].delay) {
      leave(level, level.waiting, cancelled);
      const auto end = std::stable_partition(level.waiting.begin(), level.waiting.end(),
                                             [&](const PendingPtr& p) { return !is_late(*p, now); });
      for (auto at = end; at != level.waiting.end(); ++at) level.delayed.push_back(std::move(*at));
      level.waiting.erase(end, level.waiting.end());
    } else {
      leave(level, level.waiting, [&](const Pending& p) { return cancelled(p) || is_late(p, now); });
    }
    for (const PendingPtr& pending : level.waiting)
      if (pending->deadline != Clock::time_point::max() && (!next || pending->deadline < *next))
        next = pending->deadline;
  }
  next_sweep_ = std::min(now + sweep_interval, next.value_or(Clock::time_point::max()));
  return next;
}

template <class Visit>
void BatchQueue::visit(Visit visit) {
  for (Level& level : levels_)
    for (const PendingPtr& pending : level.waiting)
      if (!visit(*pending)) return;
  for (Level& level : levels_)
    for (const PendingPtr& pending : level.delayed)
      if (!visit(*pending)) return;
}

// A row of an engine's profile holds so many elements, however few requests they are of.
bool BatchQueue::has_room(const Candidates& found, const Pending& pending) const {
  if (found.total + pending.batch > policy_.max_batch) return false;
  for (size_t i = 0; i < std::min(pending.ragged.size(), policy_.most_elements.size()); ++i)
    if (policy_.most_elements[i] > 0 && found.ragged[i] + pending.ragged[i] > policy_.most_elements[i]) return false;
  return true;
}

BatchQueue::Candidates BatchQueue::candidates() {
  Candidates found;
  const Pending* first = nullptr;
  visit([&](const Pending& pending) {
    if (first == nullptr) {
      first = &pending;
      found.oldest = pending.request.timeline.queued;
      found.ragged.resize(pending.ragged.size());
    } else if (!has_room(found, pending) || !fit_together(*first, pending)) {
      found.closed = true;
      return false;
    }
    found.total += pending.batch;
    for (size_t i = 0; i < found.ragged.size(); ++i) found.ragged[i] += pending.ragged[i];
    ++found.requests;
    found.oldest = std::min(found.oldest, pending.request.timeline.queued);
    found.sums.emplace_back(found.total, found.requests);
    return found.total < policy_.max_batch;
  });
  return found;
}

// Of the requests that wait as many as make a size that instances are ready for, where there is one.
size_t BatchQueue::largest_ready(const Candidates& found) const {
  size_t best = found.requests;
  for (const auto& [total, requests] : found.sums)
    if (is_ready(total)) best = requests;
  return best;
}

// How many of the requests run now; 0: wait.
size_t BatchQueue::choose(const Candidates& found, Clock::time_point now,
                          std::optional<Clock::time_point>& wait_until) const {
  if (policy_.latency_target && times_ != nullptr && !times_->empty()) return choose_by_target(found, now, wait_until);
  const bool too_old = policy_.max_delay.count() > 0 && now - found.oldest >= policy_.max_delay;
  if (too_old) return largest_ready(found);
  const int64_t largest = policy_.preferred.empty() ? policy_.max_batch : *policy_.preferred.rbegin();
  size_t best = 0;
  for (const auto& [total, requests] : found.sums)
    if (policy_.preferred.contains(total)) best = requests;
  if (best == 0 && found.total > largest)  // what is beyond the largest preferred size is the next batch's
    for (const auto& [total, requests] : found.sums)
      if (total <= largest) best = requests;
  if (best > 0) return best;
  if (found.closed || found.total >= largest || policy_.max_delay.count() == 0) return largest_ready(found);
  wait_until = found.oldest + policy_.max_delay;
  return 0;
}

// Of the requests that wait the number that share a run, where all of them run by batches of that size, one behind
// another. Where a batch takes as long as its requests one by one, each is done sooner alone.
size_t BatchQueue::done_soonest(const Candidates& found, size_t requests) const {
  const int64_t total = found.sums[requests - 1].first;
  const auto ms = [&](int64_t elements) {
    return std::chrono::duration<double, std::milli>(times_->expected(elements)).count();
  };
  size_t best = requests;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < requests; ++i) {
    const auto [size, shared] = found.sums[i];
    if (!is_ready(size)) continue;
    const int64_t runs = total / size, rest = total % size;
    const double run = ms(size), last_end = static_cast<double>(runs) * run + (rest > 0 ? ms(rest) : 0);
    const double ends = static_cast<double>(size * runs * (runs + 1)) / 2 * run + static_cast<double>(rest) * last_end;
    const double cost = ends / static_cast<double>(total) + weight_of_last_end * last_end;
    if (cost > least) continue;
    least = cost;
    best = shared;
  }
  return best;
}

// At most the largest batch that is done by the time of the oldest request, and of these the one that is done soonest.
// Waiting for one more pays if that one gains more than all who wait lose: it is done in one run in place of a second
// one after the first, they by the wait and the longer run later. Where just the end of both runs counts instances
// idle, and what comes later waits for that.
size_t BatchQueue::choose_by_target(const Candidates& found, Clock::time_point now,
                                    std::optional<Clock::time_point>& wait_until) const {
  const auto usable = std::chrono::nanoseconds(
      static_cast<int64_t>(static_cast<double>(policy_.latency_target->count()) * usable_share));
  const Clock::time_point due = found.oldest + usable;
  size_t fits = 0;
  for (const auto& [total, requests] : found.sums)
    if (now + times_->expected(total) <= due) fits = requests;
  // What is late already is late: the most work in the least time then.
  if (fits == 0) return done_soonest(found, found.requests);
  const auto pace = [&](size_t requests) {
    const int64_t total = found.sums[requests - 1].first;
    return static_cast<double>(total) / static_cast<double>(times_->expected(total).count());
  };
  if (fits < found.requests && pace(fits) < least_pace * pace(found.requests)) fits = found.requests;
  const size_t soonest = done_soonest(found, fits);
  if (soonest < found.requests || found.closed || found.total >= policy_.max_batch || gap_.count() == 0) return soonest;
  const auto longer = times_->expected(found.total + 1) - times_->expected(found.total);
  const auto gained = times_->expected(1) - longer - gap_;
  const auto lost = static_cast<int64_t>(found.requests) * (gap_ + longer);
  const Clock::time_point next = std::max(now, last_arrival_ + gap_);
  const auto longest_wait = 2 * gap_;  // then the next one does not come as the others did
  if (gained <= lost || now - last_arrival_ > longest_wait) return soonest;
  if (next + times_->expected(found.total + 1) > due) return soonest;
  wait_until =
      std::min(last_arrival_ + longest_wait + std::chrono::nanoseconds(1), due - times_->expected(found.total));
  return 0;
}

std::vector<PendingPtr> BatchQueue::take(size_t requests) {
  std::vector<PendingPtr> taken;
  taken.reserve(requests);
  int64_t elements = 0;
  const auto from = [&](Level& level, std::deque<PendingPtr>& queue) {
    while (taken.size() < requests && !queue.empty()) {
      elements += queue.front()->batch;
      level.elements -= queue.front()->batch;
      taken.push_back(std::move(queue.front()));
      queue.pop_front();
    }
  };
  for (Level& level : levels_) from(level, level.waiting);
  for (Level& level : levels_) from(level, level.delayed);
  size_ -= taken.size();
  if (size_ > 0) {
    const auto batch = static_cast<double>(elements);
    busy_batch_ = busy_batch_ == 0 ? batch : busy_batch_ + (batch - busy_batch_) / 8;
  }
  return taken;
}

BatchQueue::Decision BatchQueue::next(Clock::time_point now, std::vector<PendingPtr>& out) {
  Decision decision;
  if (now >= next_sweep_) sweep(now, out);
  while (size_ > 0 && decision.batch.empty()) {
    const Candidates found = candidates();
    const size_t requests = choose(found, now, decision.wait_until);
    if (requests == 0) {
      decision.wait_until = std::min(*decision.wait_until, std::max(next_sweep_, now + std::chrono::microseconds(50)));
      return decision;
    }
    decision.batch = take(requests);
    const auto end = std::stable_partition(decision.batch.begin(), decision.batch.end(), [](const PendingPtr& pending) {
      return !pending->request.cancellation.cancelled();
    });
    for (auto at = end; at != decision.batch.end(); ++at) out.push_back(std::move(*at));
    decision.batch.erase(end, decision.batch.end());
  }
  return decision;
}

}  // namespace camshaft::server
