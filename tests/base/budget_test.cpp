#include "base/budget.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "base/aligned_buffer.h"
#include "base/error.h"
#include "base/work_scope.h"

namespace camshaft::budget_test {
namespace {

std::shared_ptr<Budget> small_budget() {
  return std::make_shared<Budget>(1e6, size_t{1} << 20, "ask for more operations", "ask for more memory");
}

std::string refusal(const std::function<void()>& work, ErrorCode code) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code);
    return error.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

TEST(Budget, operations_are_taken_until_there_are_none) {
  const auto budget = small_budget();
  budget->take_operations(6e5);
  budget->check_operations(1e6);  // by itself
  const std::string text = refusal([&] { budget->take_operations(5e5); }, ErrorCode::unsupported);
  EXPECT_NE(text.find("1.1e+06 have been taken"), text.npos) << text;
  EXPECT_NE(text.find("ask for more operations"), text.npos) << text;
  EXPECT_NE(refusal([&] { budget->check_operations(2e6); }, ErrorCode::unsupported).find("needs 2e+06"), text.npos);
}

TEST(Budget, memory_is_given_back_by_what_holds_it) {
  const auto budget = small_budget();
  const Cancellation cancellation;
  MemoryClaim kept;
  {
    const WorkScope scope(cancellation, budget);
    kept = MemoryClaim(size_t{700} << 10);
    const std::string text =
        refusal([] { AlignedBuffer(size_t{700} << 10, "the arena of a test"); }, ErrorCode::out_of_memory);
    EXPECT_NE(text.find("the arena of a test"), text.npos) << text;
    EXPECT_NE(text.find("needs 700.0 KiB, with which 1.4 MiB would be in use"), text.npos) << text;
    EXPECT_NE(text.find("ask for more memory"), text.npos) << text;
    kept = MemoryClaim();
    const AlignedBuffer fits(size_t{700} << 10, "the arena of a test");
    EXPECT_EQ(budget->most_bytes_in_use(), size_t{700} << 10);
    kept = MemoryClaim(size_t{300} << 10);
  }
  // Outside nobody counts, but what was claimed inside still is.
  const MemoryClaim outside(size_t{1} << 40);
  EXPECT_THROW(budget->take_bytes(size_t{800} << 10), Error);
  kept = MemoryClaim();
  budget->take_bytes(size_t{800} << 10);
}

}  // namespace
}  // namespace camshaft::budget_test
