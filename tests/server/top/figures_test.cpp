// What `camshaft top` makes of two looks at a server.
#include "server/top/figures.h"

#include <gtest/gtest.h>

#include <cmath>

namespace camshaft::server::figures_test {
namespace {

using nlohmann::json;

json look(double uptime, uint64_t success, uint64_t runs, std::vector<uint64_t> counts) {
  const json statistics = {{"pending", 3},
                           {"success", success},
                           {"fail", success / 10},
                           {"inferences", 4 * runs},
                           {"executions", runs},
                           {"computed", success},
                           {"queue_total_us", 100 * success},
                           {"compute_total_us", 300 * success},
                           {"batches", {{4, runs}}},
                           {"failures", {{"rejected", success / 10}, {"other", 0}}}};
  return {{"id", "camshaft"},
          {"version", "1"},
          {"ready", true},
          {"uptime_s", uptime},
          {"process",
           {{"id", 7}, {"cpu_s", uptime / 2}, {"resident_bytes", 1000}, {"machine_bytes", 5000}, {"machine_cores", 2}}},
          {"models",
           {{{"name", "m"},
             {"version", "1"},
             {"state", "READY"},
             {"reason", ""},
             {"statistics", statistics},
             {"latency", {{"bounds_us", {10, 20, 50}}, {"counts", counts}}}},
            {{"name", "n"}, {"version", ""}, {"state", "UNAVAILABLE"}, {"reason", "broken"}}}},
          {"errors", {{{"time_ms", 5}, {"message", "wrong"}}}}};
}

TEST(TopFigures, AreOfTheTimeBetweenTwoLooks) {
  const Figures figures = compare_looks(look(10, 100, 20, {50, 50, 0, 0}), look(12, 300, 60, {50, 150, 100, 0}));
  EXPECT_DOUBLE_EQ(figures.seconds, 2);
  EXPECT_DOUBLE_EQ(figures.cores, 0.5);
  ASSERT_EQ(figures.models.size(), 2);
  const ModelFigures& model = figures.models[0];
  EXPECT_TRUE(model.loaded);
  EXPECT_EQ(model.waiting, 3);
  EXPECT_DOUBLE_EQ(model.requests_per_second, 100);
  EXPECT_DOUBLE_EQ(model.failures_per_second, 10);
  EXPECT_DOUBLE_EQ(model.batch.value(), 4);
  EXPECT_DOUBLE_EQ(model.queue_us.value(), 100);
  EXPECT_DOUBLE_EQ(model.run_us.value(), 300);
  EXPECT_DOUBLE_EQ(model.p50_us.value(), 20);                      // the first hundred are within 20
  EXPECT_DOUBLE_EQ(model.p99_us.value(), 20 + 30 * 98.0 / 100.0);  // 198 of 200
  EXPECT_EQ(model.runs, (std::map<int64_t, uint64_t>{{4, 40}}));
  EXPECT_EQ(model.failures, (std::map<std::string, uint64_t>{{"rejected", 30}}));
  EXPECT_FALSE(figures.models[1].loaded);
  EXPECT_EQ(figures.models[1].reason, "broken");
  EXPECT_EQ(figures.errors.at(0).message, "wrong");
}

TEST(TopFigures, WithoutALookBeforeTheyAreSinceTheStart) {
  const Figures figures = compare_looks(nullptr, look(10, 100, 20, {100, 0, 0, 0}));
  EXPECT_DOUBLE_EQ(figures.seconds, 0);
  EXPECT_DOUBLE_EQ(figures.models[0].requests_per_second, 10);
  EXPECT_DOUBLE_EQ(figures.models[0].p50_us.value(), 5);
}

TEST(TopFigures, AServerThatWasStartedAgainAndAModelThatWasLoadedAgainCountFromZero) {
  json other = look(2, 50, 10, {50, 0, 0, 0});
  other["process"]["id"] = 8;
  EXPECT_DOUBLE_EQ(compare_looks(look(100, 1000, 20, {1000, 0, 0, 0}), other).models[0].requests_per_second, 25);
  const Figures again = compare_looks(look(10, 1000, 200, {0, 1000, 0, 0}), look(12, 50, 10, {50, 0, 0, 0}));
  EXPECT_DOUBLE_EQ(again.models[0].requests_per_second, 25);
  EXPECT_LE(again.models[0].p99_us.value(), 10);
}

TEST(TopFigures, WhereNothingWasAskedThereAreNoLatencies) {
  const json same = look(10, 100, 20, {100, 0, 0, 0});
  json later = same;
  later["uptime_s"] = 12;
  const ModelFigures model = compare_looks(same, later).models[0];
  EXPECT_DOUBLE_EQ(model.requests_per_second, 0);
  EXPECT_FALSE(model.batch || model.queue_us || model.run_us || model.p50_us || model.p99_us);
  EXPECT_TRUE(model.runs.empty());
}

TEST(TopFigures, DocumentsThatLackFiguresThrow) {
  json lacking = look(10, 100, 20, {100, 0, 0, 0});
  lacking["models"][0]["statistics"].erase("computed");
  EXPECT_THROW(compare_looks(nullptr, lacking), json::exception);
}

TEST(TopQuantile, AboveTheLastBoundIsInfinite) {
  EXPECT_TRUE(std::isinf(quantile_us({10, 20}, {1, 1, 8}, 0.5).value()));
  EXPECT_DOUBLE_EQ(quantile_us({10, 20}, {1, 1, 0}, 1).value(), 20);
  EXPECT_FALSE(quantile_us({10, 20}, {0, 0, 0}, 0.5));
}

TEST(TopJson, HasNullForWhatThereIsNot) {
  Figures figures = compare_looks(nullptr, look(10, 100, 20, {0, 0, 0, 100}));
  const auto document = figures_json(figures);
  EXPECT_TRUE(document["models"][0]["p99_us"].is_null());
  EXPECT_EQ(document["models"][0]["runs_by_batch"]["4"], 20);
  EXPECT_FALSE(document["models"][1].contains("waiting"));
  EXPECT_TRUE(json::accept(document.dump()));
}

}  // namespace
}  // namespace camshaft::server::figures_test
