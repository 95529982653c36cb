#include "ort_provider/options.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "ort_provider/tensorrt_options.h"

namespace camshaft::ort_provider::options_test {
namespace {

using Pairs = std::map<std::string, std::string>;

/// As ONNX Runtime's session has them.
ProviderOptions parsed(const Pairs& options, Pairs entries = {}) {
  for (const auto& [name, value] : options) entries["ep.camshaftexecutionprovider." + name] = value;
  return parse_options(entries);
}

std::string refused(const Pairs& options, ErrorCode code) {
  try {
    parsed(options);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(ProviderOptions, DefaultsAreThoseOfABuild) {
  const ProviderOptions options = parsed({});
  const BuildOptions build;
  EXPECT_EQ(options.settings.build.tuning, build.tuning);
  EXPECT_EQ(options.settings.build.verify, build.verify);
  EXPECT_EQ(options.cache_folder, "");
  EXPECT_EQ(options.least_nodes, 1u);
  EXPECT_FALSE(options.makes_context_nodes);
}

TEST(ProviderOptions, NamesWithEitherDash) {
  const ProviderOptions options = parsed({{"tuning_seconds", "3"}, {"verify-seconds", "4"}, {"fp16", "True"}});
  EXPECT_EQ(options.settings.build.tuning_seconds, 3);
  EXPECT_EQ(options.settings.build.verify_seconds, 4);
  EXPECT_TRUE(options.settings.build.fp16);
}

TEST(ProviderOptions, ThreadsAreOfBuildsAndRuns) {
  const ProviderOptions options = parsed({{"threads", "3"}});
  EXPECT_EQ(options.settings.build.threads, 3);
  EXPECT_EQ(options.settings.context.threads, 3);
  EXPECT_NE(refused({{"threads", "-1"}}, ErrorCode::invalid_argument).find("threads"), std::string::npos);
}

TEST(ProviderOptions, AnEmptyValueIsTheDefault) {
  EXPECT_EQ(parsed({{"tuning", ""}, {"nonsense", ""}}).settings.build.tuning, BuildOptions().tuning);
}

TEST(ProviderOptions, OthersOptionsAreNotLookedAt) {
  EXPECT_NO_THROW(parse_options({{"ep.otherexecutionprovider.nonsense", "1"}, {"session.intra_op.spin", "0"}}));
}

TEST(ProviderOptions, TheSessionsOwn) {
  const ProviderOptions options =
      parsed({}, {{"ep.context_enable", "1"}, {"ep.context_embed_mode", "1"}, {"ep.context_file_path", "made.onnx"}});
  EXPECT_TRUE(options.makes_context_nodes && options.embeds_context);
  EXPECT_EQ(options.context_path, "made.onnx");
}

TEST(ProviderOptions, Lists) {
  const ProviderOptions options = parsed({{"exclude-operators", "Conv, Gemm,"}});
  EXPECT_EQ(options.excluded, (std::set<std::string>{"Conv", "Gemm"}));
}

TEST(ProviderOptions, TheSizeOfACache) {
  EXPECT_EQ(parsed({}).cache_bytes, default_cache_bytes);
  EXPECT_EQ(parsed({{"engine-cache-size", "123"}}).cache_bytes, 123u);
  EXPECT_NE(refused({{"engine-cache-size", "1GB"}}, ErrorCode::invalid_argument).find("takes a number, not '1GB'"),
            std::string::npos);
}

TEST(ProviderOptions, AWeightlessCacheNeedsACache) {
  const ProviderOptions with = parsed({{"engine-cache", "1"}, {"trt_weight_stripped_engine_enable", "1"}});
  EXPECT_TRUE(with.cache_is_weightless && with.settings.build.strip_weights && with.unused.empty());
  const ProviderOptions without = parsed({{"engine-cache-weightless", "1"}});
  EXPECT_FALSE(without.cache_is_weightless || without.settings.build.strip_weights);
  ASSERT_EQ(without.unused.size(), 1u);
  EXPECT_NE(without.unused[0].find("without 'engine-cache'"), std::string::npos);
}

TEST(ProviderOptions, OursGoBeforeTensorRTs) {
  EXPECT_FALSE(parsed({{"fp16", "0"}, {"trt_fp16_enable", "1"}}).settings.build.fp16);
}

TEST(ProviderOptions, TheKeyFollowsWhatDecidesTheEngine) {
  const std::string plain = build_key(parsed({}));
  EXPECT_NE(plain, build_key(parsed({{"fp16", "1"}})));
  EXPECT_NE(plain, build_key(parsed({{"max-shapes", "x:1"}})));
  EXPECT_EQ(plain, build_key(parsed({{"timing-cache", "somewhere"}, {"engine-cache-prefix", "mine"}})));
  const std::string table = ::testing::TempDir() + "ort_provider_ranges.json";
  std::ofstream(table) << "one";
  const std::string one = build_key(parsed({{"int8", "1"}, {"calibration", table}}));
  std::ofstream(table) << "two";
  EXPECT_NE(one, build_key(parsed({{"int8", "1"}, {"calibration", table}})));
}

TEST(TensorRTOptions, AreTranslated) {
  const TranslatedOptions out = translate_tensorrt_options({{"trt_fp16_enable", "True"},
                                                            {"trt_engine_cache_enable", "0"},
                                                            {"trt_engine_cache_path", "folder"},
                                                            {"trt_int8_calibration_table_name", "table.txt"},
                                                            {"trt_timing_cache_enable", "1"},
                                                            {"trt_builder_optimization_level", "2"},
                                                            {"trt_max_workspace_size", "1024"}});
  EXPECT_EQ(out.options, (Pairs{{"fp16", "true"},
                                {"engine-cache", "false"},
                                {"engine-cache-path", "folder"},
                                {"calibration", "folder/table.txt"},
                                {"timing-cache", "folder/camshaft.timing"},
                                {"tuning", "heuristic"}}));
  ASSERT_EQ(out.unused.size(), 1u);
  EXPECT_NE(out.unused[0].find("trt_max_workspace_size"), std::string::npos);
}

TEST(TensorRTOptions, LevelsFromThreeOnMeasure) {
  EXPECT_TRUE(translate_tensorrt_options({{"trt_builder_optimization_level", "3"}}).options.empty());
  EXPECT_TRUE(translate_tensorrt_options({{"trt_build_heuristics_enable", "0"}}).options.empty());
}

TEST(TensorRTOptions, WhatCannotBeHadIsRefusedUnlessOff) {
  EXPECT_NO_THROW(translate_tensorrt_options({{"trt_dla_enable", "0"}}));
  EXPECT_NE(refused({{"trt_dla_enable", "1"}}, ErrorCode::unsupported).find("trt_dla_enable"), std::string::npos);
  EXPECT_NE(refused({{"trt_fp16", "1"}}, ErrorCode::invalid_argument).find("did you mean 'trt_fp16_enable'"),
            std::string::npos);
}

TEST(ProviderOptions, AStreamIsTheProgramsByItsAddress) {
  const auto given = [](const char* value) { return parse_stream_options({{"user_compute_stream", value}}); };
  EXPECT_EQ(given("4096"), reinterpret_cast<void*>(4096));
  EXPECT_EQ(given("0x1000"), reinterpret_cast<void*>(4096));
  EXPECT_EQ(given("0"), std::optional<void*>(nullptr)) << "CUDA's default stream";
  EXPECT_EQ(parse_stream_options({}), std::nullopt);
  for (const char* wrong : {"", "mine", "12 ", "-1", "0x"}) EXPECT_THROW(given(wrong), Error) << wrong;
  EXPECT_THROW(parse_stream_options({{"priority", "1"}}), Error);
  // The CPU has none.
  const ProviderOptions options = parsed({{"user_compute_stream", "4096"}});
  EXPECT_EQ(options.stream, std::nullopt);
  ASSERT_EQ(options.unused.size(), 1u);
  EXPECT_NE(options.unused[0].find("user_compute_stream"), std::string::npos);
  EXPECT_NE(refused({{"has_user_compute_stream", "1"}}, ErrorCode::invalid_argument).find("needs"), std::string::npos);
}

}  // namespace
}  // namespace camshaft::ort_provider::options_test
