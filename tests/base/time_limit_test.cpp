#include "base/time_limit.h"

#include <gtest/gtest.h>

#include "base/work_scope.h"

namespace camshaft::time_limit_test {
namespace {

TEST(TimeLimit, CancelsWhatIsNotDoneInTime) {
  const TimeLimit limit(std::chrono::milliseconds(10));
  const WorkScope scope(limit.cancellation());
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(while (std::chrono::steady_clock::now() < start + std::chrono::minutes(1)) cancellation_point(), Error);
}

TEST(TimeLimit, NoTimeIsOverAtOnce) {
  const TimeLimit limit(std::chrono::milliseconds(0));
  const WorkScope scope(limit.cancellation());
  EXPECT_THROW(cancellation_point(), Error);
}

TEST(TimeLimit, EndsWithWhatIsDoneInTime) {
  const auto start = std::chrono::steady_clock::now();
  Cancellation kept;
  {
    const TimeLimit limit(std::chrono::hours(1));
    kept = limit.cancellation();
    const WorkScope scope(limit.cancellation());
    cancellation_point();
  }
  EXPECT_FALSE(kept.cancelled());
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::minutes(1));
}

}  // namespace
}  // namespace camshaft::time_limit_test
