// The rules of dynamic batching, on a clock that the tests set.
#include "server/core/batch_queue.h"

#include <gtest/gtest.h>

#include "server/core/make_pending.h"
#include "server/core/status.h"

namespace camshaft::server::batch_queue_test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

class Queue {
 public:
  explicit Queue(BatchPolicy policy, const BatchTimes* times = nullptr) : queue(std::move(policy), times) {}

  std::shared_ptr<Answer> push(int64_t batch, int64_t size = 4, uint64_t priority = 0, uint64_t timeout_us = 0) {
    auto answer = std::make_shared<Answer>();
    PendingPtr pending = make_pending(statistics, answer, batch, size, now);
    pending->request.priority = priority;
    pending->request.timeout_us = timeout_us;
    last_cancellation = pending->request.cancellation;
    queue.push(pending, now, free_at);
    return answer;
  }
  /// The batches' sizes in elements of the next one; empty: it waits.
  std::vector<int64_t> next() {
    BatchQueue::Decision decision = queue.next(now, out);
    wait_until = decision.wait_until;
    std::vector<int64_t> sizes;
    for (const PendingPtr& pending : decision.batch) sizes.push_back(pending->batch);
    for (const PendingPtr& pending : decision.batch) pending->succeed({});
    return sizes;
  }

  ModelStatistics statistics;
  Clock::time_point now = Clock::time_point() + std::chrono::hours(1);
  std::vector<Clock::time_point> free_at;  // of instances; none: nothing is foreseen
  std::vector<PendingPtr> out;
  std::optional<Clock::time_point> wait_until;
  Cancellation last_cancellation;
  BatchQueue queue;
};

BatchPolicy policy_of(int64_t max_batch, std::set<int64_t> preferred = {}, microseconds delay = microseconds(0)) {
  BatchPolicy policy;
  policy.max_batch = max_batch;
  policy.preferred = std::move(preferred);
  policy.max_delay = delay;
  return policy;
}

using Sizes = std::vector<int64_t>;

TEST(BatchQueue, ANewQueueHasNothing) {
  Queue queue(policy_of(8));
  EXPECT_TRUE(queue.next().empty());
  EXPECT_FALSE(queue.wait_until);
}

TEST(BatchQueue, WithoutADelayWhatIsThereRuns) {
  Queue queue(policy_of(8));
  queue.push(1);
  EXPECT_EQ(queue.next(), Sizes({1}));
  for (int i = 0; i < 3; ++i) queue.push(2);
  EXPECT_EQ(queue.next(), Sizes({2, 2, 2}));
}

TEST(BatchQueue, SizesThatInstancesAreReadyForComeFirst) {
  BatchPolicy policy = policy_of(8);
  policy.ready = {1, 2, 4, 8};
  Queue queue(policy);
  for (int i = 0; i < 7; ++i) queue.push(1);
  EXPECT_EQ(queue.next(), Sizes({1, 1, 1, 1}));
  EXPECT_EQ(queue.next(), Sizes({1, 1}));
  EXPECT_EQ(queue.next(), Sizes({1}));
  for (int i = 0; i < 2; ++i) queue.push(3);  // 3 and 6 are none of these
  EXPECT_EQ(queue.next(), Sizes({3, 3}));
}

TEST(BatchQueue, ABatchIsNotLargerThanTheLargest) {
  Queue queue(policy_of(4));
  for (int i = 0; i < 3; ++i) queue.push(3);
  EXPECT_EQ(queue.next(), Sizes({3}));
  EXPECT_EQ(queue.next(), Sizes({3}));
  queue.push(1);
  EXPECT_EQ(queue.next(), Sizes({3, 1}));
}

TEST(BatchQueue, OnlyEqualShapesShareABatchAndOrderIsKept) {
  Queue queue(policy_of(8));
  queue.push(1, 4);
  queue.push(1, 5);
  queue.push(1, 4);
  EXPECT_EQ(queue.next(), Sizes({1}));
  EXPECT_EQ(queue.next(), Sizes({1}));
  EXPECT_EQ(queue.next(), Sizes({1}));
}

TEST(BatchQueue, WithADelayItWaitsForMore) {
  Queue queue(policy_of(8, {}, microseconds(1000)));
  queue.push(1);
  EXPECT_TRUE(queue.next().empty());
  ASSERT_TRUE(queue.wait_until);
  EXPECT_LE(*queue.wait_until, queue.now + microseconds(1000));
  queue.now += microseconds(999);
  queue.push(2);
  EXPECT_TRUE(queue.next().empty());
  queue.now += microseconds(1);  // of the first, not of the last
  EXPECT_EQ(queue.next(), Sizes({1, 2}));
}

TEST(BatchQueue, AFullBatchDoesNotWait) {
  Queue queue(policy_of(4, {}, milliseconds(10)));
  queue.push(1);
  queue.push(3);
  EXPECT_EQ(queue.next(), Sizes({1, 3}));
}

TEST(BatchQueue, WhatCannotGrowDoesNotWait) {
  Queue queue(policy_of(4, {}, milliseconds(10)));
  queue.push(3);
  queue.push(2);
  EXPECT_EQ(queue.next(), Sizes({3}));
  EXPECT_TRUE(queue.next().empty());
}

TEST(BatchQueue, TheLargestPreferredSizeThatIsThereRuns) {
  Queue queue(policy_of(8, {2, 4}, milliseconds(10)));
  for (int i = 0; i < 3; ++i) queue.push(1);
  EXPECT_EQ(queue.next(), Sizes({1, 1}));
  EXPECT_TRUE(queue.next().empty());  // one waits for a second
  for (int i = 0; i < 5; ++i) queue.push(1);
  EXPECT_EQ(queue.next(), Sizes({1, 1, 1, 1}));
}

TEST(BatchQueue, BehindItsDelayItRunsInAnySize) {
  Queue queue(policy_of(8, {4}, milliseconds(10)));
  for (int i = 0; i < 3; ++i) queue.push(1);
  EXPECT_TRUE(queue.next().empty());
  queue.now += milliseconds(10);
  EXPECT_EQ(queue.next(), Sizes({1, 1, 1}));
}

TEST(BatchQueue, AFullQueueRefuses) {
  BatchPolicy policy = policy_of(4);
  policy.queues[0].most = 2;
  Queue queue(policy);
  queue.push(1);
  queue.push(1);
  try {
    queue.push(1);
    FAIL();
  } catch (const ServerError& error) {
    EXPECT_EQ(error.code(), StatusCode::unavailable);
    EXPECT_STREQ(error.what(), "Exceeds maximum queue size");
  }
  EXPECT_EQ(queue.queue.size(), 2);
}

TEST(BatchQueue, WhatWaitsTooLongIsRefused) {
  BatchPolicy policy = policy_of(8, {}, milliseconds(100));
  policy.queues[0].default_timeout = milliseconds(10);
  Queue queue(policy);
  queue.push(1);
  EXPECT_TRUE(queue.next().empty());
  queue.now += milliseconds(10);
  EXPECT_TRUE(queue.next().empty());
  EXPECT_EQ(queue.out.size(), 1);
  EXPECT_EQ(queue.queue.size(), 0);
}

TEST(BatchQueue, ARequestMayOnlyShortenItsTimeoutAndOnlyWhereAllowed) {
  for (const bool allowed : {false, true}) {
    BatchPolicy policy = policy_of(8, {}, milliseconds(100));
    policy.queues[0].default_timeout = milliseconds(10);
    policy.queues[0].allow_override = allowed;
    Queue queue(policy);
    queue.push(1, 4, 0, 5000);
    queue.push(1, 4, 0, 50000);
    queue.now += milliseconds(6);
    queue.next();
    EXPECT_EQ(queue.out.size(), allowed ? 1 : 0);
    queue.now += milliseconds(5);
    queue.next();
    EXPECT_EQ(queue.out.size(), 2);
  }
}

TEST(BatchQueue, WhatIsDelayedRunsBehindTheOthers) {
  BatchPolicy policy = policy_of(1);
  policy.queues[0].default_timeout = milliseconds(10);
  policy.queues[0].delay = true;
  Queue queue(policy);
  const auto late = queue.push(1);
  queue.now += milliseconds(20);
  const auto timely = queue.push(1);
  queue.next();
  EXPECT_TRUE(timely->done);
  EXPECT_FALSE(late->done);
  queue.next();
  EXPECT_TRUE(late->done);
  EXPECT_TRUE(queue.out.empty());
}

TEST(BatchQueue, TheHighestPriorityRunsFirst) {
  BatchPolicy policy = policy_of(1);
  policy.levels = 3;
  policy.default_level = 1;
  policy.queues.resize(3);
  Queue queue(policy);
  const auto low = queue.push(1, 4, 3), usual = queue.push(1, 4, 0), high = queue.push(1, 4, 1);
  queue.next();
  EXPECT_TRUE(high->done && !usual->done && !low->done);
  queue.next();
  EXPECT_TRUE(usual->done && !low->done);
  queue.next();
  EXPECT_TRUE(low->done);
  EXPECT_THROW(queue.push(1, 4, 4), ServerError);
}

TEST(BatchQueue, CancelledRequestsLeave) {
  Queue queue(policy_of(4));
  queue.push(1);
  queue.last_cancellation.cancel();
  queue.push(2);
  EXPECT_EQ(queue.next(), Sizes({2}));
  EXPECT_EQ(queue.out.size(), 1);
}

// Runs of n take 1 ms + n · 0.1 ms: what two share is 1 ms.
struct SharedTimes : BatchTimes {
  SharedTimes() {
    for (const int64_t n : {1, 2, 4, 8, 16}) add(n, microseconds(1000 + 100 * n));
  }
};

BatchPolicy target_of_10_ms() {
  BatchPolicy policy = policy_of(16);
  policy.latency_target = milliseconds(10);
  return policy;
}

void set_gap(Queue& queue, microseconds gap) {
  for (int i = 0; i < 64; ++i) {
    queue.push(1);
    for (const PendingPtr& late : queue.queue.next(queue.now + std::chrono::hours(1), queue.out).batch)
      late->succeed({});
    queue.now += gap;
  }
}

TEST(BatchTimes, AreMeasuredAndInterpolated) {
  BatchTimes times;
  EXPECT_TRUE(times.empty());
  times.add(1, microseconds(100));
  times.add(3, microseconds(300));
  EXPECT_EQ(times.expected(2), microseconds(200));
  EXPECT_EQ(times.expected(6), microseconds(600));
  times.add(3, microseconds(380));
  EXPECT_EQ(times.expected(3), microseconds(310));
  EXPECT_EQ(times.cautious(3), microseconds(320));  // the deviation is 10
  EXPECT_EQ(times.cautious(1), microseconds(100));
  EXPECT_EQ(times.cautious(2), microseconds(210));
}

TEST(BatchQueueTarget, WaitsWhereThatPays) {
  const SharedTimes times;
  BatchPolicy policy = policy_of(16);
  policy.latency_target = milliseconds(20);
  Queue queue(policy, &times);
  set_gap(queue, microseconds(200));  // the next one comes after 0.2 ms, 1 ms of work is shared
  queue.push(1);
  EXPECT_TRUE(queue.next().empty());
  ASSERT_TRUE(queue.wait_until);
  queue.now = *queue.wait_until + microseconds(1000);  // it did not come
  EXPECT_EQ(queue.next(), Sizes({1}));
}

TEST(BatchQueueTarget, DoesNotWaitWhereThatDoesNotPay) {
  const SharedTimes times;
  BatchPolicy policy = policy_of(16);
  policy.latency_target = milliseconds(20);
  Queue queue(policy, &times);
  set_gap(queue, microseconds(1500));
  queue.push(1);
  EXPECT_EQ(queue.next(), Sizes({1}));
}

TEST(BatchQueueTarget, DoesNotKeepMoreWaitingThanGain) {
  const SharedTimes times;
  BatchPolicy policy = policy_of(16);
  policy.latency_target = milliseconds(20);
  Queue queue(policy, &times);
  set_gap(queue, microseconds(400));  // one that waits loses 0.5 ms, the one that is waited for gains 0.6
  queue.push(1);
  EXPECT_TRUE(queue.next().empty());
  queue.push(1);
  EXPECT_EQ(queue.next(), Sizes({1, 1}));
}

TEST(BatchQueueTarget, KeepsItsPaceWhereTheOldestIsLate) {
  const SharedTimes times;
  BatchPolicy policy = policy_of(16);
  policy.latency_target = milliseconds(2);
  Queue queue(policy, &times);
  queue.push(1);
  queue.now += microseconds(600);  // 1.2 ms are left, which a batch of 2 takes
  for (int i = 0; i < 15; ++i) queue.push(1);
  EXPECT_EQ(queue.next().size(), 16);
}

TEST(BatchQueueTarget, TakesTheBatchThatIsDoneInTime) {
  const SharedTimes times;
  BatchPolicy policy = policy_of(16);
  policy.latency_target = milliseconds(2);  // 1.8 ms: a batch of 8 takes just that
  Queue queue(policy, &times);
  for (int i = 0; i < 12; ++i) queue.push(1);
  EXPECT_EQ(queue.next().size(), 8);
}

TEST(BatchQueueTarget, RequestsThatShareNoWorkRunOneByOne) {
  BatchTimes times;
  for (const int n : {1, 2, 4, 8, 16}) times.add(n, n * milliseconds(1));
  Queue queue(target_of_10_ms(), &times);
  for (int i = 0; i < 6; ++i) queue.push(1);
  EXPECT_EQ(queue.next(), Sizes({1}));
  queue.now += milliseconds(20);  // nor do they when they are late
  EXPECT_EQ(queue.next(), Sizes({1}));
}

TEST(BatchQueueTarget, RunsThatLargeBatchesSlowDownAreSmaller) {
  BatchTimes times;
  for (const auto& [n, us] : {std::pair(1, 1000), {2, 1400}, {4, 2200}, {8, 6000}, {16, 13000}})
    times.add(n, microseconds(us));
  Queue queue(target_of_10_ms(), &times);
  for (int i = 0; i < 8; ++i) queue.push(1);
  EXPECT_EQ(queue.next().size(), 4);
}

TEST(BatchQueueTarget, WhatIsLateRunsWithAllThatFits) {
  const SharedTimes times;
  BatchPolicy policy = policy_of(16);
  policy.latency_target = milliseconds(2);
  Queue queue(policy, &times);
  for (int i = 0; i < 20; ++i) queue.push(1);
  queue.now += milliseconds(5);
  EXPECT_EQ(queue.next().size(), 16);
}

// How many requests of one element are taken, before one is refused.
int taken_until_refused(Queue& queue) {
  for (int taken = 0; taken < 10000; ++taken) {
    const size_t before = queue.queue.size();
    try {
      queue.push(1);
    } catch (const ServerError& error) {
      EXPECT_EQ(error.code(), StatusCode::resource_exhausted);
      EXPECT_NE(std::string(error.what()).find("latency_target_ms is 10"), std::string::npos) << error.what();
      EXPECT_EQ(queue.queue.size(), before);
      return taken;
    }
  }
  return 10000;
}

TEST(BatchQueueTarget, RefusesWhatWouldBeLate) {
  const SharedTimes times;
  Queue queue(target_of_10_ms(), &times);
  queue.free_at = {queue.now + microseconds(2600)};
  // 10 ms: what runs, two batches of 16, and one of 12; 2.6 ms each but the last, of 2.2.
  EXPECT_NEAR(taken_until_refused(queue), 44, 1);
  EXPECT_EQ(queue.next().size(), 16);
  queue.free_at = {queue.now + microseconds(2600)};
  EXPECT_NEAR(taken_until_refused(queue), 16, 1);
}

TEST(BatchQueueTarget, SeveralInstancesTakeMore) {
  const SharedTimes times;
  Queue queue(target_of_10_ms(), &times);
  queue.free_at = {queue.now + microseconds(2600), queue.now + microseconds(2600)};
  EXPECT_GT(taken_until_refused(queue), 70);
}

TEST(BatchQueueTarget, WhereShapesDifferBatchesAreForeseenAsTheyWere) {
  const SharedTimes times;
  Queue queue(target_of_10_ms(), &times);
  for (int i = 0; i < 100; ++i) queue.push(1, 4 + i % 2);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(queue.next(), Sizes({1}));
  queue.free_at = {queue.now};
  EXPECT_NEAR(taken_until_refused(queue), 9, 1);  // 1.1 ms each
}

TEST(BatchQueueTarget, WhereTimesDifferFewerAreTaken) {
  SharedTimes times;
  for (int i = 0; i < 100; ++i) times.add(16, microseconds(i % 2 == 0 ? 1600 : 3600));  // 2.6 ms in the mean, as before
  Queue queue(target_of_10_ms(), &times);
  queue.free_at = {queue.now + microseconds(2600)};
  EXPECT_LT(taken_until_refused(queue), 34);  // where 44 are taken of equal times
}

TEST(BatchQueueTarget, LongRunsStandBesideShortOnes) {
  BatchTimes times;
  for (int i = 0; i < 100; ++i) times.add(1, microseconds(i % 2 == 0 ? 500 : 1500));
  BatchPolicy policy = target_of_10_ms();
  policy.max_batch = 1;
  Queue queue(policy, &times);
  queue.free_at = {queue.now};
  // Of 8 with 2 ms each 5 would be taken; all of them take 8 ms in the mean, seldom more than 10.
  EXPECT_GE(taken_until_refused(queue), 6);
}

TEST(BatchQueueTarget, WhereNothingWaitsNothingIsRefused) {
  const SharedTimes times;
  Queue queue(target_of_10_ms(), &times);
  queue.free_at = {queue.now + std::chrono::seconds(1)};
  queue.push(1);
  EXPECT_EQ(queue.queue.size(), 1);
  EXPECT_EQ(taken_until_refused(queue), 0);
}

ModelConfig config_of(const std::string& json) {
  return parse_model_config_json(json);
}

TEST(BatchPolicy, IsMadeOfTheConfiguration) {
  const BatchPolicy policy = make_batch_policy(config_of(R"({"name": "m", "max_batch_size": 8, "dynamic_batching": {
      "preferred_batch_size": [2, 4], "max_queue_delay_microseconds": 100, "priority_levels": 2,
      "default_priority_level": 2, "default_queue_policy": {"max_queue_size": 3},
      "priority_queue_policy": {"1": {"timeout_action": "DELAY", "default_timeout_microseconds": 7}}}})"));
  EXPECT_EQ(policy.max_batch, 8);
  EXPECT_EQ(policy.preferred, std::set<int64_t>({2, 4}));
  EXPECT_EQ(policy.max_delay, microseconds(100));
  EXPECT_EQ(policy.default_level, 1);
  EXPECT_TRUE(policy.queues[0].delay);
  EXPECT_EQ(policy.queues[0].default_timeout, microseconds(7));
  EXPECT_EQ(policy.queues[1].most, 3);
}

TEST(BatchPolicy, RefusesWhatIsOutOfRange) {
  for (const char* batching :
       {R"("preferred_batch_size": [9])", R"("preferred_batch_size": [0])", R"("priority_levels": 2)",
        R"("priority_levels": 2, "default_priority_level": 3)", R"("priority_levels": 1000000)",
        R"("priority_levels": 2, "default_priority_level": 1, "priority_queue_policy": {"3": {}})"})
    EXPECT_THROW(make_batch_policy(config_of(R"({"name": "m", "max_batch_size": 8, "dynamic_batching": {)" +
                                             std::string(batching) + "}}")),
                 ServerError)
        << batching;
  for (const char* target : {"", "x", "0", "-1", "1e9", "5 ms"})
    EXPECT_THROW(make_batch_policy(config_of(R"({"name": "m", "max_batch_size": 8, "dynamic_batching": {},
        "parameters": {"latency_target_ms": {"string_value": ")" +
                                             std::string(target) + "\"}}}")),
                 ServerError)
        << target;
}

}  // namespace
}  // namespace camshaft::server::batch_queue_test
