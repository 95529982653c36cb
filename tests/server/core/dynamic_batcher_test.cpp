// Threads, instances and answers of the batcher, with instances that do what the test says.
#include "server/core/dynamic_batcher.h"

#include <gtest/gtest.h>

#include <future>

#include "server/core/make_pending.h"

namespace camshaft::server::dynamic_batcher_test {
namespace {

// Runs only while it is allowed to, and notes the sizes of its batches.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  int open = 0, entered = 0;
  std::vector<size_t> batches;

  void allow(int runs) {
    const std::lock_guard lock(mutex);
    open += runs;
    changed.notify_all();
  }
  void wait_until_entered(int count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return entered >= count; });
  }
};

class GatedInstance : public Instance {
 public:
  explicit GatedInstance(Gate& gate) : gate_(gate) {}
  void run(std::vector<PendingPtr> batch) noexcept override {
    {
      std::unique_lock lock(gate_.mutex);
      ++gate_.entered;
      gate_.batches.push_back(batch.size());
      gate_.changed.notify_all();
      gate_.changed.wait(lock, [&] { return gate_.open > 0; });
      --gate_.open;
    }
    for (const PendingPtr& pending : batch) pending->succeed({*pending->inputs.front()});
  }

 private:
  Gate& gate_;
};

struct Waited {
  std::promise<Response> promise;
};

class Batcher {
 public:
  Batcher(int instances, BatchPolicy policy, bool preserve_ordering = false) {
    std::vector<PlacedInstance> placed;
    for (int i = 0; i < instances; ++i) placed.push_back({std::make_unique<GatedInstance>(gate), 0});
    DynamicBatcher::Options options;
    options.policy = std::move(policy);
    options.preserve_ordering = preserve_ordering;
    batcher = std::make_unique<DynamicBatcher>(std::move(placed), std::move(options), statistics, nullptr);
  }
  std::future<Response> submit(float value, const Cancellation& cancellation = {}) {
    auto waited = std::make_shared<Waited>();
    std::future<Response> future = waited->promise.get_future();
    PendingPtr pending = make_pending(statistics, std::make_shared<Answer>(), 1, 4, Clock::now(), value);
    pending->request.cancellation = cancellation;
    pending->intercept([&](const Respond&) {
      return [this, waited, value](Response response) {
        {
          const std::lock_guard lock(order_mutex);
          order.push_back(value);
        }
        waited->promise.set_value(std::move(response));
      };
    });
    batcher->submit(pending);
    return future;
  }

  Gate gate;
  ModelStatistics statistics;
  std::mutex order_mutex;
  std::vector<float> order;
  std::unique_ptr<DynamicBatcher> batcher;
};

BatchPolicy policy_of(int64_t max_batch) {
  BatchPolicy policy;
  policy.max_batch = max_batch;
  return policy;
}

float value_of(const Response& response) {
  float value = 0;
  std::memcpy(&value, response.outputs.front().data.span.data(), sizeof(value));
  return value;
}

TEST(DynamicBatcher, AnswersEachWithItsOwn) {
  Batcher batcher(2, policy_of(4));
  batcher.gate.allow(1000);
  std::vector<std::future<Response>> futures;
  for (int i = 0; i < 200; ++i) futures.push_back(batcher.submit(static_cast<float>(i)));
  for (int i = 0; i < 200; ++i) EXPECT_EQ(value_of(futures[static_cast<size_t>(i)].get()), static_cast<float>(i));
  EXPECT_EQ(batcher.statistics.snapshot().success.count, 200);
  EXPECT_EQ(batcher.statistics.snapshot().pending, 0);
}

TEST(DynamicBatcher, WhatComesDuringARunIsTheNextBatch) {
  Batcher batcher(1, policy_of(8));
  auto first = batcher.submit(0);
  batcher.gate.wait_until_entered(1);
  std::vector<std::future<Response>> futures;
  for (int i = 0; i < 5; ++i) futures.push_back(batcher.submit(1));
  batcher.gate.allow(2);
  first.get();
  for (auto& future : futures) future.get();
  EXPECT_EQ(batcher.gate.batches, std::vector<size_t>({1, 5}));
}

TEST(DynamicBatcher, InstancesRunAtTheSameTime) {
  Batcher batcher(3, policy_of(1));
  std::vector<std::future<Response>> futures;
  for (int i = 0; i < 3; ++i) futures.push_back(batcher.submit(1));
  batcher.gate.wait_until_entered(3);  // none has ended yet
  batcher.gate.allow(3);
  for (auto& future : futures) future.get();
}

TEST(DynamicBatcher, WhoIsCancelledWhileAllInstancesRunIsAnsweredThen) {
  Batcher batcher(1, policy_of(1));
  auto first = batcher.submit(0);
  batcher.gate.wait_until_entered(1);
  const Cancellation cancellation;
  auto second = batcher.submit(1, cancellation);
  cancellation.cancel();
  EXPECT_EQ(second.get().status.code, StatusCode::cancelled);  // the first still runs
  batcher.gate.allow(1);
  EXPECT_TRUE(first.get().status.ok());
  EXPECT_EQ(batcher.statistics.snapshot().failures[FailureReason::cancelled], 1);
}

TEST(DynamicBatcher, WhatWaitsTooLongWhileAllInstancesRunIsAnsweredThen) {
  BatchPolicy policy = policy_of(1);
  policy.queues[0].default_timeout = std::chrono::milliseconds(5);
  Batcher batcher(1, policy);
  auto first = batcher.submit(0);
  batcher.gate.wait_until_entered(1);
  auto second = batcher.submit(1);
  const Response refused = second.get();
  EXPECT_EQ(refused.status.code, StatusCode::unavailable);
  EXPECT_EQ(refused.status.message, "Request timeout expired");
  batcher.gate.allow(1);
  EXPECT_TRUE(first.get().status.ok());
}

TEST(DynamicBatcher, KeepsTheOrderWhereItIsAsked) {
  Batcher batcher(4, policy_of(1), true);
  batcher.gate.allow(1000);
  std::vector<std::future<Response>> futures;
  std::vector<float> expected;
  for (int i = 0; i < 100; ++i) {
    futures.push_back(batcher.submit(static_cast<float>(i)));
    expected.push_back(static_cast<float>(i));
  }
  for (auto& future : futures) future.get();
  EXPECT_EQ(batcher.order, expected);
}

TEST(DynamicBatcher, RunsWhatWaitsBeforeItEnds) {
  Batcher batcher(1, policy_of(2));
  auto first = batcher.submit(0);
  batcher.gate.wait_until_entered(1);
  std::vector<std::future<Response>> futures;
  for (int i = 0; i < 5; ++i) futures.push_back(batcher.submit(1));
  batcher.gate.allow(100);
  batcher.batcher.reset();
  EXPECT_TRUE(first.get().status.ok());
  for (auto& future : futures) EXPECT_TRUE(future.get().status.ok());
}

TEST(RateLimiter, InstancesOfAScarceResourceRunOneAtATime) {
  RateLimiter limiter({{{"memory", -1}, 1}});
  RateLimiter::Claim claim;
  claim.resources[{"memory", -1}] = 1;
  limiter.admit(claim, "m");
  std::atomic<int> running = 0, most = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      uint64_t executions = 0;
      for (int i = 0; i < 100; ++i) {
        limiter.acquire(claim, executions);
        most = std::max<int>(most, ++running);
        --running;
        limiter.release(claim);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
}

// Runs of two instances that want the same thing all the time, from when both run until the first has so many.
std::pair<int, int> share(RateLimiter& limiter, uint64_t first_priority, uint64_t second_priority, int runs) {
  std::atomic<int> counts[2] = {0, 0};
  std::atomic<bool> ran[2] = {false, false};
  const auto use = [&](int which, uint64_t priority) {
    RateLimiter::Claim claim;
    claim.resources[{"memory", -1}] = 1;
    claim.priority = priority;
    limiter.admit(claim, "m");
    uint64_t executions = 0;
    limiter.acquire(claim, executions);
    while (counts[0] < runs) {
      ran[which] = true;
      if (ran[0] && ran[1]) ++counts[which];
      limiter.renew(claim, executions);
    }
    limiter.release(claim);
  };
  std::thread first(use, 0, first_priority), second(use, 1, second_priority);
  first.join();
  second.join();
  return {counts[0], counts[1]};
}

TEST(RateLimiter, PrioritiesShareOut) {
  RateLimiter limiter({{{"memory", -1}, 1}});
  const auto [first, half] = share(limiter, 1, 2, 400);
  EXPECT_NEAR(half, first / 2, 12);
  // Those that come later do not catch up with what the others have run: both go on as before.
  const auto [again, third] = share(limiter, 1, 3, 400);
  EXPECT_NEAR(third, again / 3, 12);
  const auto [much, also_much] = share(limiter, 2, 2, 400);
  EXPECT_NEAR(much, also_much, 12);
}

TEST(RateLimiter, WhoWasIdleIsNotAhead) {
  RateLimiter limiter({{{"memory", -1}, 1}});
  RateLimiter::Claim claim;
  claim.resources[{"memory", -1}] = 1;
  limiter.admit(claim, "m");
  uint64_t old = 0, fresh = 0;
  for (int i = 0; i < 1000; ++i) {
    limiter.acquire(claim, old);
    limiter.release(claim);
  }
  limiter.acquire(claim, fresh);
  limiter.release(claim);
  EXPECT_GE(fresh, 999U);
}

TEST(RateLimiter, RefusesWhatCanNeverRun) {
  RateLimiter limiter({{{"memory", -1}, 1}});
  RateLimiter::Claim claim;
  claim.resources[{"memory", -1}] = 2;
  EXPECT_THROW(limiter.admit(claim, "m"), ServerError);
}

}  // namespace
}  // namespace camshaft::server::dynamic_batcher_test
