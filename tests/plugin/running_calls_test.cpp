#include "plugin/running_calls.h"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>
#include <vector>

#include "base/log.h"

namespace camshaft::plugin::running_calls_test {
namespace {

using std::chrono::milliseconds;

struct Heard final : Logger {
  void log(LogLevel, std::string_view message) noexcept override {
    const std::lock_guard lock(mutex);
    lines.emplace_back(message);
  }
  size_t count() {
    const std::lock_guard lock(mutex);
    return lines.size();
  }
  std::mutex mutex;
  std::vector<std::string> lines;
};

TEST(RunningCalls, OneThatDoesNotReturnIsNamedOnce) {
  const auto kept = std::make_shared<Heard>();
  Heard& heard = *kept;
  set_logger(kept);
  const std::string slow = "the plugin a::Slow", quick = "the plugin a::Quick";
  {
    const RunningCall call(slow, milliseconds(1));
    while (heard.count() == 0) std::this_thread::sleep_for(milliseconds(1));
    for (int i = 0; i < 1000; ++i) const RunningCall other(quick, std::chrono::hours(1));
  }
  // A later one shows that nothing more was said.
  const RunningCall last(slow, milliseconds(1));
  while (heard.count() < 2) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(heard.count(), 2U);
  set_logger(nullptr);
  for (const std::string& line : heard.lines) EXPECT_EQ(line.find("the plugin a::Slow has been running for"), 0U);
}

}  // namespace
}  // namespace camshaft::plugin::running_calls_test
