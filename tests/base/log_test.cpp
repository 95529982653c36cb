#include "base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace camshaft::log_test {
namespace {

struct Collector : Logger {
  std::vector<std::string> lines;
  void log(LogLevel level, std::string_view message) noexcept override {
    lines.push_back(std::string(to_string(level)) + ": " + std::string(message));
  }
};

struct Log : ::testing::Test {
  std::shared_ptr<Collector> collector = std::make_shared<Collector>();
  ~Log() override { set_logger(nullptr); }
};

TEST_F(Log, passes_on_what_is_at_or_above_the_level) {
  set_logger(collector, LogLevel::info);
  log_debug("a");
  log_info("b");
  log_error("c");
  EXPECT_FALSE(log_enabled(LogLevel::debug));
  set_log_level(LogLevel::debug);
  log_debug("d");
  EXPECT_EQ(collector->lines, (std::vector<std::string>{"info: b", "error: c", "debug: d"}));
}

TEST_F(Log, starts_with_warnings_on_stderr) {
  set_logger(nullptr);
  ::testing::internal::CaptureStderr();
  log_info("unheard");
  log_warning("heard");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "camshaft: warning: heard\n");
}

TEST_F(Log, is_called_by_one_thread_at_a_time) {
  set_logger(collector, LogLevel::info);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int j = 0; j < 100; ++j) log_info("line");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(collector->lines.size(), 400u);
}

}  // namespace
}  // namespace camshaft::log_test
