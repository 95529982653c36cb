#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "base/error.h"

namespace camshaft::parallel_test {
namespace {

TEST(ForEachParallel, DoesEveryPieceOnce) {
  for (const int threads : {1, 3, 8})
    for (const size_t count : {0, 1, 2, 100}) {
      std::vector<std::atomic<int>> done(count);
      for_each_parallel(threads, count, [&](size_t i) { ++done[i]; });
      for (size_t i = 0; i < count; ++i) EXPECT_EQ(done[i], 1) << i << " of " << count << ", " << threads << " threads";
    }
}

TEST(ForEachParallel, TheFirstPieceThatFailsIsTheOneThatIsReported) {
  for (const int threads : {1, 4}) {
    std::atomic<int> done = 0;
    try {
      for_each_parallel(threads, 1000, [&](size_t i) {
        ++done;
        if (i % 7 == 3) throw Error(ErrorCode::internal, "piece " + std::to_string(i));
      });
      FAIL() << "nothing was thrown";
    } catch (const Error& e) {
      EXPECT_STREQ(e.what(), "piece 3");
    }
    EXPECT_LT(done, 1000);
  }
}

}  // namespace
}  // namespace camshaft::parallel_test
