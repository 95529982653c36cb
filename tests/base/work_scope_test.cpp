#include "base/work_scope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "base/pieces.h"

namespace camshaft::work_scope_test {
namespace {

TEST(WorkScope, outside_of_one_nothing_is_cancelled) {
  EXPECT_EQ(WorkScope::current(), nullptr);
  EXPECT_EQ(current_budget(), nullptr);
  cancellation_point();
}

TEST(WorkScope, what_an_outer_one_says_holds_inside) {
  const Cancellation outer, inner;
  const auto budget = std::make_shared<Budget>(1, 1, "", "");
  const WorkScope whole(outer, budget);
  {
    const WorkScope part(inner);
    EXPECT_EQ(current_budget(), budget);
    cancellation_point();
    outer.cancel();
    EXPECT_THROW(cancellation_point(), Error);
  }
  EXPECT_EQ(WorkScope::current(), &whole);
}

TEST(WorkScope, an_inner_one_does_not_cancel_the_outer) {
  const Cancellation outer, inner;
  const WorkScope whole(outer);
  {
    const WorkScope part(inner);
    inner.cancel();
    EXPECT_THROW(cancellation_point(), Error);
  }
  cancellation_point();
}

TEST(WorkScope, workers_work_for_the_caller) {
  const Cancellation cancellation;
  const auto budget = std::make_shared<Budget>(1, 1, "", "");
  ThreadPool pool(4);
  std::atomic<int> seen = 0;
  const auto look = [&](int) { seen += current_budget() == budget ? 1 : 0; };
  {
    const WorkScope scope(cancellation, budget);
    pool.run(look);
    for_each_parallel(2, 2, [&](size_t) { look(0); });
  }
  EXPECT_EQ(seen, 6);
  pool.run(look);
  EXPECT_EQ(seen, 6) << "a worker kept the scope of an earlier loop";
}

TEST(WorkScope, a_loop_in_pieces_ends_soon) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    const Cancellation cancellation;
    const WorkScope scope(cancellation);
    std::atomic<int64_t> done = 0;
    try {
      for_pieces(pool, 1 << 20, 4, [&](int64_t begin, int64_t end) {
        done += end - begin;
        cancellation.cancel();
      });
      FAIL() << "the loop went on";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::cancelled);
    }
    EXPECT_LE(done, threads * 64);
  }
}

TEST(WorkScope, pieces_are_the_whole_range) {
  ThreadPool pool(2);
  for (const int64_t count : {0, 1, 63, 64, 65, 1000})
    for (const int64_t grain : {0, 1, 7, 2000}) {
      std::vector<std::atomic<int>> times(static_cast<size_t>(count));
      for_pieces(pool, count, grain, [&](int64_t begin, int64_t end) {
        EXPECT_EQ(begin % std::max<int64_t>(grain, 1), 0);
        for (int64_t i = begin; i < end; ++i) ++times[static_cast<size_t>(i)];
      });
      for (const auto& t : times) ASSERT_EQ(t, 1) << count << " by " << grain;
    }
}

}  // namespace
}  // namespace camshaft::work_scope_test
