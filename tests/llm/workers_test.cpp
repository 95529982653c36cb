#include "llm/workers.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace camshaft::llm::workers_test {
namespace {

TEST(Workers, RunEachTaskOnce) {
  for (const size_t count : {1, 2, 5}) {
    Workers workers(count);
    EXPECT_EQ(workers.count(), count);
    for (size_t round = 0; round < 2000; ++round) {
      std::vector<std::atomic<int>> runs(round % 20);
      workers.run(runs.size(), [&](size_t task, size_t worker) {
        EXPECT_LT(worker, count);
        ++runs[task];
      });
      for (const std::atomic<int>& each : runs) ASSERT_EQ(each, 1);
    }
  }
}

TEST(Workers, ThrowWhatATaskThrewAndGoOn) {
  Workers workers(3);
  std::atomic<int> runs{0};
  EXPECT_THROW(workers.run(10,
                           [&](size_t task, size_t) {
                             ++runs;
                             if (task == 4) throw std::runtime_error("four");
                           }),
               std::runtime_error);
  EXPECT_EQ(runs, 10);
  workers.run(3, [&](size_t, size_t) { ++runs; });
  EXPECT_EQ(runs, 13);
}

}  // namespace
}  // namespace camshaft::llm::workers_test
