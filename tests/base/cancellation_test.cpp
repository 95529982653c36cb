#include "base/cancellation.h"

#include <gtest/gtest.h>

#include <csignal>
#include <string>

namespace camshaft::cancellation_test {
namespace {

TEST(Cancellation, copies_share_the_flag) {
  const Cancellation kept;
  const Cancellation given = kept;
  const Cancellation other;
  given.check("building");
  kept.cancel();
  EXPECT_TRUE(given.cancelled());
  EXPECT_FALSE(other.cancelled());
  try {
    given.check("building the engine");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::cancelled);
    EXPECT_EQ(std::string(error.what()), "cancelled while building the engine");
  }
}

Cancellation* for_the_handler = nullptr;

TEST(Cancellation, works_from_a_signal_handler) {
  Cancellation cancellation;
  for_the_handler = &cancellation;
  const auto before = std::signal(SIGUSR1, [](int) { for_the_handler->cancel(); });
  std::raise(SIGUSR1);
  std::signal(SIGUSR1, before);
  EXPECT_THROW(cancellation.check("waiting"), Error);
}

}  // namespace
}  // namespace camshaft::cancellation_test
