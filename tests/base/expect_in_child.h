// Tests of what a forked child can do.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace camshaft {

/// Calls `body` in a forked child and expects true; a child that hangs is ended by an alarm.
template <class Body>
void expect_in_child(const Body& body) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);
    bool good = false;
    try {
      good = body();
    } catch (...) {  // is what the exit status says
    }
    std::_Exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace camshaft
