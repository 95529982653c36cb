#include "server/core/trace.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace camshaft::server::trace_test {
namespace {

class Trace : public testing::Test {
 protected:
  Trace() {
    settings_.file = testing::TempDir() + "camshaft_trace_test.json";
    settings_.level = {"TIMESTAMPS"};
    settings_.rate = 1;
  }
  ~Trace() override {
    for (const char* end : {"", ".0", ".1", ".2"}) std::filesystem::remove(settings_.file + end);
  }

  // How many of so many requests are traced.
  static int run(TraceSettingsStore& store, const std::string& model, int count) {
    int traced = 0;
    for (int i = 0; i < count; ++i) {
      Request request;
      request.model = model;
      request.version = "3";
      request.id = "r";
      request.timeline.received = request.timeline.queued = Clock::now();
      store.sample(request);
      traced += !request.trace_id.empty();
      Timeline timeline = request.timeline;
      timeline.compute_start = timeline.input_end = timeline.output_start = timeline.compute_end = Clock::now();
      store.finished(request, timeline, Clock::now());
    }
    return traced;
  }
  static nlohmann::json read(const std::string& file) { return nlohmann::json::parse(std::ifstream(file)); }

  TraceSettings settings_;
};

TEST_F(Trace, FileIsWholeAfterEach) {
  TraceSettingsStore store(settings_);
  EXPECT_EQ(run(store, "m", 1), 1);
  EXPECT_EQ(read(settings_.file).size(), 2u);
  EXPECT_EQ(run(store, "m", 2), 2);
  const nlohmann::json all = read(settings_.file);
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all[4]["model_name"], "m");
  EXPECT_EQ(all[4]["model_version"], 3);
  EXPECT_EQ(all[4]["request_id"], "r");
  EXPECT_EQ(all[5]["id"], all[4]["id"]);
  std::vector<std::string> names;
  uint64_t before = 0;
  for (const auto& time : all[5]["timestamps"]) {
    names.push_back(time["name"]);
    EXPECT_LE(before, time["ns"].get<uint64_t>());
    before = time["ns"];
  }
  EXPECT_EQ(names, (std::vector<std::string>{"REQUEST_START", "QUEUE_START", "COMPUTE_START", "COMPUTE_INPUT_END",
                                             "COMPUTE_OUTPUT_START", "COMPUTE_END", "INFER_RESPONSE_COMPLETE",
                                             "REQUEST_END"}));
}

TEST_F(Trace, RateCountAndFiles) {
  settings_.rate = 3;
  settings_.count = 2;
  settings_.log_frequency = 1;
  TraceSettingsStore store(settings_);
  EXPECT_EQ(run(store, "m", 20), 2);
  EXPECT_EQ(store.get("").count, 0);
  EXPECT_EQ(read(settings_.file + ".0").size(), 2u);
  EXPECT_EQ(read(settings_.file + ".1").size(), 2u);
  EXPECT_FALSE(std::filesystem::exists(settings_.file + ".2"));
  store.update("", {{"trace_count", {"-1"}}, {"trace_rate", {"1"}}});
  EXPECT_EQ(run(store, "m", 4), 4);
  store.update("", {{"trace_rate", {}}});
  EXPECT_EQ(store.get("").rate, 3u);
}

TEST_F(Trace, ModelsOwnSettings) {
  TraceSettingsStore store(settings_);
  store.update("a", {{"trace_level", {"OFF"}}});
  EXPECT_EQ(run(store, "a", 3), 0);
  EXPECT_EQ(run(store, "b", 3), 3);
  store.update("", {{"trace_rate", {"2"}}});
  EXPECT_EQ(store.get("a").rate, 2u);
  EXPECT_EQ(store.get("a").level, (std::vector<std::string>{"OFF"}));
  store.update("a", {{"trace_level", {}}});
  EXPECT_EQ(run(store, "a", 4), 2);
  store.update("", {{"trace_level", {"OFF"}}});
  EXPECT_EQ(run(store, "a", 4), 0);
}

TEST_F(Trace, WrongSettingsChangeNothing) {
  TraceSettingsStore store(settings_);
  using Settings = std::map<std::string, std::vector<std::string>>;
  for (const Settings& wrong : {Settings{{"trace_rate", {"x"}}}, Settings{{"trace_rate", {"-1"}}},
                                Settings{{"trace_count", {"99999999999"}}}, Settings{{"trace_level", {"ALL"}}},
                                Settings{{"log_frequency", {"1", "2"}}}, Settings{{"trace_level", {"TENSORS"}}}}) {
    Settings with = wrong;
    with.emplace("trace_rate", std::vector<std::string>{"7"});
    EXPECT_THROW(store.update("", with), ServerError);
  }
  EXPECT_EQ(store.get("").rate, 1u);
  settings_.mode = "other";
  EXPECT_THROW(TraceSettingsStore{settings_}, ServerError);
  settings_.mode = "opentelemetry";
  settings_.url = "https://collector";
  EXPECT_THROW(TraceSettingsStore{settings_}, ServerError);
}

}  // namespace
}  // namespace camshaft::server::trace_test
