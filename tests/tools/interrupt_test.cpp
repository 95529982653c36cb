// What becomes of the first and of the second signal.
#include "tools/interrupt.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace camshaft::tools::interrupt_test {
namespace {

TEST(InterruptDeathTest, TheFirstSignalCancelsAndTheSecondEnds) {
  for (const int first : {SIGINT, SIGTERM})
    for (const int second : {SIGINT, SIGTERM})
      EXPECT_EXIT(
          {
            // A background job of a shell has SIGINT ignored and hands that on.
            std::signal(SIGINT, SIG_DFL);
            const Cancellation cancellation = cancel_on_interrupt();
            std::raise(first);
            if (!cancellation.cancelled() || interrupted_exit_code() != 128 + first) _exit(1);
            std::raise(second);
            _exit(2);
          },
          testing::KilledBySignal(second), "")
          << first << " and " << second;
}

TEST(InterruptDeathTest, WhatIsIgnoredStaysIgnored) {
  EXPECT_EXIT(
      {
        std::signal(SIGINT, SIG_DFL);
        std::signal(SIGTERM, SIG_IGN);
        const Cancellation cancellation = cancel_on_interrupt();
        std::raise(SIGTERM);
        if (cancellation.cancelled()) _exit(1);
        std::raise(SIGINT);
        std::raise(SIGTERM);
        _exit(cancellation.cancelled() ? 0 : 2);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace camshaft::tools::interrupt_test
