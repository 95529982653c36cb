#include "quantize/calibration_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "test_random.h"

namespace camshaft::calibration_file_test {
namespace {

std::string refusal(const std::string& text) {
  try {
    parse_calibration(text, "f");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  ADD_FAILURE() << "was taken: " << text;
  return "";
}

void expect_refused(const std::string& text, const std::string& begin) {
  EXPECT_EQ(refusal(text).substr(0, begin.size()), begin) << text;
}

const Calibration example{"entropy", {{"a: b", {-1.5F, 2}}, {"naïve \"x\"", {0, 0.1F}}, {"z", {0, 0}}}};

TEST(CalibrationFile, OurOwnKeepsAll) {
  const std::string text = calibration_text(example, CalibrationFormat::json);
  EXPECT_EQ(text, R"({
 "camshaft_calibration": 1,
 "method": "entropy",
 "ranges": {
  "a: b": [-1.5, 2],
  "naïve \"x\"": [0, 0.1],
  "z": [0, 0]
 }
}
)");
  EXPECT_EQ(parse_calibration(text, "f"), example);
  EXPECT_EQ(parse_calibration(calibration_text({"minmax", {}}, CalibrationFormat::json), "f"),
            (Calibration{"minmax", {}}));
}

TEST(CalibrationFile, EveryFloatComesBack) {
  Random random = test_random();
  Calibration calibration{"mse", {}};
  for (int i = 0; i < 2000; ++i) {
    const auto a = static_cast<float>(random.normal() * std::pow(10, random.uniform(-44, 38)));
    if (std::isfinite(a)) calibration.ranges["t" + std::to_string(i)] = {std::min(a, 0.F), std::max(a, 0.F)};
  }
  calibration.ranges["most"] = {-std::numeric_limits<float>::max(), std::numeric_limits<float>::max()};
  EXPECT_EQ(parse_calibration(calibration_text(calibration, CalibrationFormat::json), "f"), calibration);
}

TEST(CalibrationFile, ChannelsAreKept) {
  const Calibration calibration{"mse", {{"x", {-1, 2}}, {"y", {0, 1}}}, {{"x", {0, 2, 0.1F}}}};
  const std::string text = calibration_text(calibration, CalibrationFormat::json);
  EXPECT_EQ(parse_calibration(text, "f"), calibration);
  const std::string begin =
      "{\"camshaft_calibration\": 1, \"method\": \"mse\", \"ranges\": {\"x\": [0, 1]},\n\"channels\": ";
  expect_refused(begin + "[]}", "'f', line 2: \"channels\" must be an object of an array for each tensor");
  for (const char* wrong : {"[]", "3", "[-1]", "[1e99]", "[\"1\"]"})
    expect_refused(begin + "{\n\"x\": " + wrong + "}}", "'f', line 1: the channels of 'x' are not finite magnitudes");
  expect_refused(begin + "{\n\"z\": [1]}}", "'f', line 3: 'z' has channels and no range");
  const std::string noise = R"({"camshaft_calibration": 1, "method": "mse", "ranges": {"x": [0, 1]}, "noise": )";
  EXPECT_EQ(parse_calibration(noise + "{\"x\": 0.25}}", "f").noise.at("x"), 0.25F);
  expect_refused(noise + "[]}", "'f', line 1: \"noise\" must be an object of a number for each tensor");
  for (const char* wrong : {"-1", "1.5", "\"a\"", "[1]", "null"})
    expect_refused(noise + "{\n\"x\": " + wrong + "}}", "'f', line 2: the noise of 'x' is not a number from 0 to 1");
  expect_refused(noise + "{\n\"z\": 1}}", "'f', line 2: 'z' has noise and no range");
  expect_refused(begin + "{\n\"x\": [1],\n\"x\": [1]}}", "'f', line 4: 'x' is there twice");
}

TEST(CalibrationFile, TensorRTs) {
  // Of a public cache.
  const Calibration read = parse_calibration(
      "TRT-8401-EntropyCalibration2\ninput: 3caa54fc\n371: 3caa54fc\n(Unnamed Layer* 64) [Shuffle]_output: 0\n"
      "a: b: 3F800000\r\n\n",
      "f");
  EXPECT_EQ(read.method, "entropy");
  ASSERT_EQ(read.ranges.size(), 4U);
  EXPECT_NEAR(read.ranges.at("input").max, 2.64064, 1e-5);
  EXPECT_EQ(read.ranges.at("input").min, -read.ranges.at("input").max);
  EXPECT_EQ(read.ranges.at("(Unnamed Layer* 64) [Shuffle]_output"), TensorRange());
  EXPECT_EQ(read.ranges.at("a: b").max, 127);
  EXPECT_EQ(parse_calibration("TRT-101401-MinMaxCalibration\nx: 1", "f").method, "minmax");
  EXPECT_EQ(parse_calibration("TRT-7000-OtherCalibration", "f").method, "OtherCalibration");
}

TEST(CalibrationFile, TensorRTsIsWrittenSymmetric) {
  EXPECT_EQ(calibration_text({"minmax", {{"x", {-1, 127}}, {"y: z", {-254, 3}}, {"zero", {0, 0}}}},
                             CalibrationFormat::tensorrt),
            "TRT-8601-MinMaxCalibration\nx: 3f800000\ny: z: 40000000\nzero: 0\n");
  EXPECT_EQ(calibration_text({"mse", {}}, CalibrationFormat::tensorrt), "TRT-8601-EntropyCalibration2\n");
  const std::string cache = "TRT-8601-EntropyCalibration2\n371: 3caa54fc\ninput: 3caa54fc\n";
  EXPECT_EQ(calibration_text(parse_calibration(cache, "f"), CalibrationFormat::tensorrt), cache);
  EXPECT_THROW(calibration_text({"", {{"a\nb: 3f800000", {}}}}, CalibrationFormat::tensorrt), Error);
  EXPECT_THROW(calibration_text({"", {{"", {}}}}, CalibrationFormat::tensorrt), Error);
}

TEST(CalibrationFile, DamagedCachesNameTheLine) {
  const std::string header = "TRT-8601-EntropyCalibration2\n";
  expect_refused("TRT-\n", "'f', line 1: 'TRT-' is no first line of a calibration cache");
  expect_refused("TRT-8x01-EntropyCalibration2\n", "'f', line 1: ");
  expect_refused("TRT-8601-\n", "'f', line 1: ");
  expect_refused(header + "x: 3f800000\nx 3f800000\n", "'f', line 3: 'x 3f800000' is no tensor's name");
  expect_refused(header + "x:3f800000\n", "'f', line 2: ");
  expect_refused(header + ": 3f800000\n", "'f', line 2: ");
  expect_refused(header + "x: \n", "'f', line 2: the scale of 'x' is ''");
  expect_refused(header + "x: 3f80000g\n", "'f', line 2: the scale of 'x' is '3f80000g'");
  expect_refused(header + "x: 03f800000\n", "'f', line 2: ");
  expect_refused(header + "x: -1\n", "'f', line 2: ");
  expect_refused(header + "x: 0x1\n", "'f', line 2: ");
  expect_refused(header + "x: 7fc00000\n", "'f', line 2: the scale of 'x' is nan");
  expect_refused(header + "x: 7f800000\n", "'f', line 2: the scale of 'x' is inf");
  expect_refused(header + "x: bf800000\n", "'f', line 2: the scale of 'x' is -1");
  expect_refused(header + "x: 7f7fffff\n", "'f', line 2: ");  // 127 times that is infinite
  expect_refused(header + "x: 1\nx: 2\n", "'f', line 3: 'x' has a scale already");
  expect_refused("TRT-8601-EntropyCalibration2\rx: 3f800000\r", "'f', line 1: ");  // ends of lines of old Macs
}

TEST(CalibrationFile, DamagedJsonNamesTheLine) {
  const std::string begin = "{\n \"camshaft_calibration\": 1,\n \"method\": \"mse\",\n \"ranges\": {\n";
  expect_refused("", "'f', line 1: it is neither");
  expect_refused(
      "\x7f"
      "ELF",
      "'f', line 1: it is neither");
  expect_refused("{}", "'f', line 1: it is no calibration");
  expect_refused(begin, "'f', line 5: parse error");
  expect_refused("{\n \"camshaft_calibration\": 2}", "'f', line 2: it is of version 2");
  expect_refused("{\"camshaft_calibration\": 1}", "'f', line 1: \"method\"");
  expect_refused("{\"camshaft_calibration\": 1, \"method\": \"\"}", "'f', line 1: \"ranges\"");
  expect_refused(begin + "}, \"more\": 1}", "'f', line 5: \"more\" is unknown");
  for (const char* range : {"[1]", "[1, 2, 3]", "1", "[2, 1]", "[null, 1]", "[\"0\", 1]", "[-1e39, 1]", "{}"})
    expect_refused(begin + "  \"a\": [0, 1],\n  \"x\": " + range + "}}", "'f', line 6: the range of 'x' is ");
  expect_refused(begin + "  \"x\": [0, 1e999]}}", "'f', line ");
  expect_refused(begin + "  \"x\": [0, NaN]}}", "'f', line 5: parse error");
  expect_refused(begin + "  \"x\": [0, 1],\n  \"x\": [0, 1]}}", "'f', line 6: 'x' is there twice");
  expect_refused(begin + "  \"x\": [[0], 1]}}", "'f', line 1: it is no calibration: it is nested too deeply");
  expect_refused("{\"a\":" + std::string(100000, '['), "'f', line 1: it is no calibration: it is nested too deeply");
  expect_refused(begin + "  \"\xff\": [0, 1]}}", "'f', line 5: parse error");
}

TEST(CalibrationFile, MessagesAreShortWhateverTheFileHas) {
  const std::string name(100000, 'x'), begin = "{\"camshaft_calibration\": 1, \"method\": \"mse\", ";
  for (const std::string& text :
       {begin + "\"ranges\": {\"" + name + "\": [1, 0]}}", begin + "\"" + name + "\": 1}",
        begin + "\"ranges\": {\"" + name + "\": [0, 1], \"" + name + "\": [0, 1]}}",
        "{\"camshaft_calibration\": \"" + name + "\"}", "TRT-" + name, "TRT-1-" + name + "-", "TRT-1-E\n" + name,
        "TRT-1-E\n" + name + ": 1\n" + name + ": 1\n", "TRT-1-E\n" + name + ": x\n",
        "TRT-1-E\n" + name + ": bf800000\n", "TRT-1-E\nx: " + name})
    try {
      parse_calibration(text, "f");
      ADD_FAILURE() << text.substr(0, 100);
    } catch (const Error& e) {
      EXPECT_LT(std::string(e.what()).size(), 600) << text.substr(0, 100);
    }
}

TEST(CalibrationFile, AByteOrderMarkIsLeftOut) {
  const std::string mark = "\xef\xbb\xbf";
  EXPECT_EQ(parse_calibration(mark + "TRT-8601-EntropyCalibration2\nx: 3f800000\n", "f").ranges.at("x").max, 127);
  EXPECT_EQ(
      parse_calibration(mark + "{\"camshaft_calibration\": 1, \"method\": \"mse\", \"ranges\": {\"x\": [0, 2]}}", "f")
          .ranges.at("x")
          .max,
      2);
}

TEST(CalibrationFile, DamagedBytesAreReadOrRefused) {
  Random random = test_random();
  for (const CalibrationFormat format : {CalibrationFormat::json, CalibrationFormat::tensorrt}) {
    const std::string whole = calibration_text(example, format);
    for (int round = 0; round < 3000; ++round) {
      std::string text = whole.substr(0, static_cast<size_t>(random.integer(0, static_cast<int64_t>(whole.size()))));
      for (int64_t change = random.integer(0, 3); change > 0 && !text.empty(); --change)
        text[static_cast<size_t>(random.integer(0, static_cast<int64_t>(text.size()) - 1))] =
            static_cast<char>(random.integer(0, 255));
      try {
        for (const auto& [name, range] : parse_calibration(text, "f").ranges)
          ASSERT_TRUE(std::isfinite(range.min) && std::isfinite(range.max) && range.min <= range.max);
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), ErrorCode::invalid_argument);
      }
    }
  }
}

TEST(CalibrationFile, WhatIsNoRangeIsNotWritten) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const TensorRange& range : {TensorRange{1, 0}, TensorRange{-infinity, 0}, TensorRange{0, NAN}})
    for (const CalibrationFormat format : {CalibrationFormat::json, CalibrationFormat::tensorrt})
      EXPECT_THROW(calibration_text({"", {{"x", range}}}, format), Error);
}

TEST(CalibrationFile, FilesAreTheSameByteByByte) {
  const TemporaryFolder folder;
  const std::string path = folder.file("c");
  for (const CalibrationFormat format : {CalibrationFormat::json, CalibrationFormat::tensorrt}) {
    write_calibration(example, path, format);
    std::ifstream file(path);
    EXPECT_EQ(std::string((std::istreambuf_iterator<char>(file)), {}), calibration_text(example, format));
    EXPECT_EQ(read_calibration(path).ranges.size(), 3U);
  }
  EXPECT_THROW(write_calibration({"", {{"x", {1, 0}}}}, path, CalibrationFormat::json), Error);
  EXPECT_EQ(read_calibration(path).ranges.size(), 3U);  // still the one before
  EXPECT_THROW(read_calibration(folder.file("none")), Error);
}

TEST(CalibrationFile, RangesOfAnotherModelAreRefusedWithNames) {
  EXPECT_EQ(tensors_without_range(example, {"a: b", "z"}, "f"), std::vector<std::string>());
  EXPECT_EQ(tensors_without_range(example, {"a: b", "q"}, "f"), std::vector<std::string>{"q"});
  try {
    tensors_without_range(example, {"z", "q", "r"}, "f");
    FAIL();
  } catch (const Error& error) {
    const std::string what = error.what();
    for (const char* part : {"'f' is of another model", "'q'", "'r'", "'a: b'"})
      EXPECT_NE(what.find(part), std::string::npos) << what;
  }
}

}  // namespace
}  // namespace camshaft::calibration_file_test
