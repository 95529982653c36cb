#include "tools/npz.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "camshaft/camshaft.hpp"
#include "test_random.h"

namespace camshaft::tools::npz_test {
namespace {

class Npz : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "npz_test_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    path_ = (folder_ / "a.npz").string();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string contents() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void overwrite(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }

  std::filesystem::path folder_;
  std::string path_;
};

const NamedTensors& sample() {
  static const NamedTensors tensors = {
      {"x", Tensor::of<float>(DType::f32, {2, 3}, {1, 2, 3, 4, 5, 6})},
      {"folder/name: 0", Tensor::of<int64_t>(DType::i64, {2}, {-1, 1})},
      {"", Tensor(DType::u8, {0})},
      {"bf16", Tensor::of<uint16_t>(DType::bf16, {1}, {0x3f80})},
  };
  return tensors;
}

TEST_F(Npz, WhatIsWrittenIsReadAgain) {
  write_npz(path_, sample());
  NamedTensors expected = sample();
  expected[3].second = Tensor::of<float>(DType::f32, {1}, {1});
  EXPECT_EQ(read_arrays(path_), expected);
}

TEST_F(Npz, AnArchiveOfNothingIsReadAgain) {
  write_npz(path_, {});
  EXPECT_TRUE(read_arrays(path_).empty());
}

TEST_F(Npz, TheSameArraysGiveTheSameBytes) {
  write_npz(path_, sample());
  const std::string first = contents();
  write_npz(path_, sample());
  EXPECT_EQ(contents(), first);
}

TEST_F(Npz, NothingIsLeftOfAFailedWrite) {
  EXPECT_THROW(write_npz((folder_ / "absent" / "a.npz").string(), sample()), Error);
  EXPECT_THROW(write_npz("/dev/full", sample()), Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(Npz, AreWeightsOfARefit) {
  const auto weights = [](float w) { return Tensor::of<float>(DType::f32, {2, 1}, {w, -w}); };
  const auto engine_with = [&](float w) {
    Network net;
    const NetworkValue x = net.input("x", DType::f32, {"batch", 2});
    net.output(net("MatMul", {x, net.constant(weights(w), "w")}), "y");
    return Builder(std::move(BuildOptions().set("tuning", "heuristic").set("refit", true))).build(net);
  };
  write_npz(path_, {{"w", weights(2)}});
  const Engine engine = engine_with(1);
  Refitter refitter(engine);
  refitter.set_file(path_);
  refitter.refit(1);
  EXPECT_EQ(engine.save(), engine_with(2).save());
  write_npz(path_, {{"v", weights(2)}});
  EXPECT_THROW(refitter.set_file(path_), Error) << "of a name that the model does not have";
  overwrite("PK");
  EXPECT_THROW(refitter.set_file(path_), Error);
}

// Every byte is covered by a checksum or by structure, but for fields that say nothing about the arrays (dates, ...).
TEST_F(Npz, DamagedFilesGiveAnErrorOrTheSameElements) {
  Random random = test_random();
  write_npz(path_, {sample()[0]});
  const std::string whole = contents();
  int refused = 0;
  const auto check = [&](const std::string& bytes, size_t at) {
    overwrite(bytes);
    try {
      for (const auto& [name, tensor] : read_arrays(path_)) EXPECT_EQ(tensor, sample()[0].second) << at;
    } catch (const Error& error) {
      ++refused;
      EXPECT_NE(std::string(error.what()).find("a.npz"), std::string::npos) << error.what();
    }
  };
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << random.integer(0, 7)));
    check(damaged, at);
  }
  EXPECT_GT(refused, 100);
  refused = 0;
  for (size_t size = 1; size < whole.size(); ++size) check(whole.substr(0, size), size);
  EXPECT_GE(refused, static_cast<int>(whole.size()) - 8);  // the last bytes only tell of a comment
}

}  // namespace
}  // namespace camshaft::tools::npz_test
