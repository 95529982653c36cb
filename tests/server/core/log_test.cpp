#include "server/core/log.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <thread>
#include <vector>

#include "server/core/status.h"

namespace camshaft::server::log_test {
namespace {

// The log in a file of the test's own; afterwards it is as before.
class Log : public testing::Test {
 protected:
  Log() { std::remove(file_.c_str()); }
  ~Log() override {
    LogSettings().set(before_);
    std::remove(file_.c_str());
  }
  void set(const std::string& format, uint32_t verbose = 0) {
    LogSettings::Values values = before_;
    values.file = file_;
    values.format = format;
    values.verbose_level = verbose;
    LogSettings().set(values);
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> all;
    std::ifstream in(file_);
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }
  const std::string file_ = testing::TempDir() + "camshaft_log_test.txt";
  const LogSettings::Values before_ = LogSettings().values();
};

TEST_F(Log, Formats) {
  set("default");
  log(LogKind::info, "one\ntwo\x1b[31m");
  set("ISO8601");
  log(LogKind::warning, "three");
  set("json");
  log(LogKind::error, "four \"\xff\n");
  const auto all = lines();
  ASSERT_EQ(all.size(), 3u);
  EXPECT_TRUE(std::regex_match(all[0], std::regex(R"(I\d{4} \d\d:\d\d:\d\d\.\d{6} \d+\] one\\ntwo\\x1b\[31m)")))
      << all[0];
  EXPECT_TRUE(std::regex_match(all[1], std::regex(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z W \d+\] three)")))
      << all[1];
  const auto line = nlohmann::json::parse(all[2]);
  EXPECT_EQ(line["level"], "error");
  EXPECT_EQ(line["message"], "four \"\xef\xbf\xbd\n");
  EXPECT_EQ(recent_errors().at(1).message, "three");
}

TEST_F(Log, WhatIsAskedFor) {
  set("default");
  log(LogKind::verbose, "quiet");
  EXPECT_TRUE(lines().empty());
  set("default", 1);
  log(LogKind::verbose, "loud");
  ASSERT_EQ(lines().size(), 1u);
  LogSettings::Values values = LogSettings().values();
  values.error = false;
  LogSettings().set(values);
  log(LogKind::error, "not written, but remembered");
  EXPECT_EQ(lines().size(), 1u);
  EXPECT_EQ(recent_errors().at(0).message, "not written, but remembered");
  values.format = "xml";
  EXPECT_THROW(LogSettings().set(values), ServerError);
  values.format = "default";
  values.file = "/no/such/folder/log";
  EXPECT_THROW(LogSettings().set(values), ServerError);
  EXPECT_EQ(LogSettings().values().file, file_);
}

TEST_F(Log, LinesOfThreadsDoNotMix) {
  set("default");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      for (int i = 0; i < 500; ++i) log(LogKind::info, std::string(100, static_cast<char>('a' + t)));
    });
  for (std::thread& thread : threads) thread.join();
  const auto all = lines();
  ASSERT_EQ(all.size(), 2000u);
  for (const std::string& line : all)
    EXPECT_TRUE(std::regex_match(line, std::regex(R"(.*\] (a{100}|b{100}|c{100}|d{100}))"))) << line;
}

}  // namespace
}  // namespace camshaft::server::log_test
