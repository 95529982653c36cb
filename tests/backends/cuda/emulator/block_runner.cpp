#include "block_runner.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "facts.h"

namespace emulator {

namespace {

thread_local BlockRunner* running_kernel = nullptr;

constexpr size_t page = 4096;
constexpr size_t shared_room = (facts::most_shared_bytes_per_block + page - 1) / page * page;

std::string text(Index i) {
  return "(" + std::to_string(i.x) + ", " + std::to_string(i.y) + ", " + std::to_string(i.z) + ")";
}

}  // namespace

void Launch::fail(const std::string& what) {
  const std::lock_guard lock(mutex_);
  if (problem_.empty()) problem_ = what;
}

bool Launch::failed() const {
  const std::lock_guard lock(mutex_);
  return !problem_.empty();
}

BlockRunner& BlockRunner::of_this_host_thread() {
  thread_local BlockRunner runner;
  return runner;
}

BlockRunner* BlockRunner::in_kernel() {
  return running_kernel;
}

// Shared memory ends where a page ends that nobody may touch.
BlockRunner::BlockRunner() {
  void* memory = mmap(nullptr, shared_room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  shared_ = static_cast<std::byte*>(memory);
  mprotect(shared_ + shared_room, page, PROT_NONE);
  // For the handler of a kernel's faults, among them a stack that is full.
  stack_t signals = {};
  if (sigaltstack(nullptr, &signals) == 0 && (signals.ss_flags & SS_DISABLE) != 0) {
    constexpr size_t bytes = 64 * 1024;
    signal_stack_ = std::make_unique<std::byte[]>(bytes);
    signals = {.ss_sp = signal_stack_.get(), .ss_flags = 0, .ss_size = bytes};
    sigaltstack(&signals, nullptr);
  }
  block_.synchronize = synchronize;
  block_.synchronize_cluster = synchronize_cluster;
  block_.exchange = exchange;
  block_.yield = yield;
  block_.await_phase = await_phase;
  block_.phase_ended = phase_ended;
  block_.fail = fail_in_kernel;
}

BlockRunner::~BlockRunner() {
  if (signal_stack_) {
    stack_t none = {};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
  }
  munmap(shared_, shared_room + page);
}

void BlockRunner::run(Launch& launch, Index block, Cluster* cluster, unsigned rank) {
  launch_ = &launch;
  cluster_ = cluster;
  const Index size = launch.threads;
  const unsigned count = size.x * size.y * size.z;
  block_.block = block;
  block_.blocks = launch.blocks;
  block_.threads = size;
  ++block_.serial;
  block_.has_waited = false;
  const size_t shared_bytes = (launch.shared_bytes + 15) / 16 * 16;
  block_.shared = reinterpret_cast<unsigned char*>(shared_ + shared_room - shared_bytes);
  if (shared_bytes > 0) std::memset(block_.shared, facts::unwritten, shared_bytes);
  block_.cluster = &block_.shared;
  block_.cluster_blocks = 1;
  if (cluster != nullptr) {
    cluster->shared[rank] = block_.shared;
    block_.cluster = cluster->shared;
    block_.cluster_blocks = cluster->blocks();
  }
  threads_.assign(count, {});
  ready_.clear();
  await_phases_.clear();
  next_ready_ = begun_ = finished_ = at_barrier_ = votes_ = 0;
  dead_ = false;
  is_reversed_ = ((block.x + block.y + block.z) % 2 == 1) != launch.is_odd;
  meetings_.clear();
  launch.enter(&block_);
  while (finished_ < count && !dead_) {
    Stack* next = nullptr;
    if (next_ready_ < ready_.size()) {
      const unsigned thread = ready_[next_ready_++];
      if (next_ready_ == ready_.size()) {
        ready_.clear();
        next_ready_ = 0;
      }
      enter(thread);
      next = threads_[thread].stack;
    } else if (begun_ < count) {
      if (idle_.empty()) {
        stacks_.push_back(std::make_unique<Stack>());
        idle_.push_back(stacks_.back().get());
        idle_.back()->begin(work);
      }
      next = idle_.back();
      idle_.pop_back();
    } else if (cluster != nullptr && !await_phases_.empty()) {
      // Another block may end their phases, and tells nobody.
      sched_yield();
      for (const auto& [barrier, thread] : await_phases_) ready_.push_back(thread);
      await_phases_.clear();
      continue;
    } else {
      launch.fail("kernel '" + launch.name + "', block " + text(block) + ": " + who_waits());
      break;
    }
    running_ = next;
    running_kernel = this;
    switch_turn(host_, next->turn);
    running_kernel = nullptr;
  }
  if (cluster != nullptr) cluster->leave();
  if (finished_ == count && launch.may_start && !block_.has_waited)
    launch.fail("kernel '" + launch.name + "', block " + text(block) +
                ": started before the launch before had ended, and did not wait for it");
  // Threads that did not finish have left something on their stacks.
  if (finished_ < count) {
    idle_.clear();
    for (const auto& stack : stacks_) {
      stack->begin(work);
      idle_.push_back(stack.get());
    }
  }
}

void BlockRunner::work() {
  for (;;) {
    // Found anew in each turn: nothing here may be kept in a register across a switch to another block.
    BlockRunner& runner = *running_kernel;
    const auto count = static_cast<unsigned>(runner.threads_.size());
    while (runner.begun_ < count) {
      const unsigned thread = runner.in_order(runner.begun_++);
      runner.threads_[thread].stack = runner.running_;
      runner.enter(thread);
      runner.launch_->kernel->run(runner.launch_->arguments);
      runner.threads_[runner.current_].state = State::finished;
      ++runner.finished_;
    }
    runner.idle_.push_back(runner.running_);
    switch_turn(runner.running_->turn, runner.host_);
  }
}

void BlockRunner::enter(unsigned thread) {
  current_ = thread;
  threads_[thread].state = State::runs;
  const Index size = block_.threads;
  block_.thread = {thread % size.x, thread / size.x % size.y, thread / size.x / size.y};
  block_.lane = thread % 32;
}

void BlockRunner::wait(State state, const char* what) {
  Thread& thread = threads_[current_];
  thread.state = state;
  thread.what = what;
  switch_turn(thread.stack->turn, host_);
}

unsigned BlockRunner::synchronize(unsigned vote) {
  BlockRunner& runner = *running_kernel;
  runner.votes_ += vote != 0;
  if (++runner.at_barrier_ < runner.threads_.size()) {
    runner.wait(State::waits_for_block, "__syncthreads");
    return runner.counted_;
  }
  runner.counted_ = runner.votes_;
  runner.votes_ = runner.at_barrier_ = 0;
  for (unsigned i = 0; i < runner.threads_.size(); ++i)
    if (const unsigned t = runner.in_order(i); t != runner.current_) runner.ready_.push_back(t);
  return runner.counted_;
}

void BlockRunner::synchronize_cluster() {
  // The block's last thread waits for the other blocks, in the place of all.
  BlockRunner& runner = *running_kernel;
  if (runner.cluster_ != nullptr && runner.at_barrier_ + 1 == runner.threads_.size() && !runner.cluster_->meet())
    runner.fail("waits for a block of its cluster that has finished");
  synchronize(0);
}

BlockRunner::Meeting& BlockRunner::meeting(unsigned warp, unsigned mask) {
  for (const auto& known : meetings_)
    if (known->warp == warp && known->mask == mask) return *known;
  meetings_.push_back(std::make_unique<Meeting>());
  meetings_.back()->warp = warp;
  meetings_.back()->mask = mask;
  return *meetings_.back();
}

Lane* BlockRunner::exchange(const char* what, unsigned mask, const void* given, unsigned bytes, Combine combine) {
  BlockRunner& runner = *running_kernel;
  const unsigned warp = runner.current_ / 32, lane = runner.current_ % 32;
  const auto lanes = std::min<size_t>(32, runner.threads_.size() - warp * size_t{32});
  const unsigned all = ~0U >> (32 - lanes);
  if ((mask >> lane & 1) == 0) runner.fail(std::string(what) + " with a mask that the calling lane is not in");
  Meeting& meeting = runner.meeting(warp, mask & all);
  Lane(&slots)[32] = meeting.lanes[meeting.round % 2];
  if (meeting.arrived == 0) {
    meeting.what = what;
    meeting.combine = combine;
    for (Lane& slot : slots) slot.there = false;
  } else if (std::strcmp(meeting.what, what) != 0 || meeting.combine != combine) {
    runner.fail(std::string("a lane calls ") + what + " where others of its warp call " + meeting.what);
  }
  if (bytes > 0) std::memcpy(slots[lane].given, given, bytes);
  slots[lane].there = true;
  meeting.arrived |= 1U << lane;
  if (meeting.arrived != meeting.mask) {
    meeting.waiting.push_back(runner.current_);
    runner.wait(State::waits_for_warp, what);
    return slots;
  }
  if (combine != nullptr) combine(slots);
  meeting.arrived = 0;
  ++meeting.round;
  runner.ready_.insert(runner.ready_.end(), meeting.waiting.begin(), meeting.waiting.end());
  meeting.waiting.clear();
  return slots;
}

void BlockRunner::yield() {
  BlockRunner& runner = *running_kernel;
  sched_yield();
  runner.ready_.push_back(runner.current_);
  runner.wait(State::runs, "");
}

void BlockRunner::await_phase(const void* barrier) {
  BlockRunner& runner = *running_kernel;
  runner.await_phases_.emplace_back(barrier, runner.current_);
  runner.wait(State::waits_for_phase, "a phase of a barrier");
}

void BlockRunner::phase_ended(const void* barrier) {
  BlockRunner& runner = *running_kernel;
  std::erase_if(runner.await_phases_, [&](const auto& waiting) {
    if (waiting.first != barrier) return false;
    runner.ready_.push_back(waiting.second);
    return true;
  });
}

void BlockRunner::fail_in_kernel(const char* what) {
  running_kernel->fail(what);
}

void BlockRunner::fail(const std::string& what) {
  launch_->fail("kernel '" + launch_->name + "', block " + text(block_.block) + ", thread " + text(block_.thread) +
                ": " + what);
  dead_ = true;
  Turn abandoned;
  switch_turn(abandoned, host_);
  __builtin_unreachable();
}

std::string BlockRunner::who_waits() const {
  std::vector<std::pair<std::string, unsigned>> groups;  // what they do, how many
  for (const Thread& thread : threads_) {
    const std::string what = thread.state == State::finished ? "have finished" : std::string("wait in ") + thread.what;
    const auto known = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == what; });
    if (known == groups.end())
      groups.emplace_back(what, 1);
    else
      ++known->second;
  }
  std::string out = "its threads wait for each other for ever:";
  for (const auto& [what, count] : groups)
    out += (&what == &groups[0].first ? " " : ", ") + std::to_string(count) + " " + what;
  return out;
}

bool BlockRunner::overflowed_at(const void* address) const {
  return running_ != nullptr && running_->overflowed_at(address);
}

long BlockRunner::bytes_after_shared(const void* address) const {
  const auto* at = static_cast<const std::byte*>(address);
  const std::byte* end = shared_ + shared_room;
  return at >= end && at < end + page ? at - end : -1;
}

}  // namespace emulator
