#include "compile/tune/timing_cache.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/temporary_folder.h"
#include "compile/tune/lock_file.h"

namespace camshaft::timing_cache_test {
namespace {

std::string read_text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void write_text(const std::string& path, const std::string& text) {
  std::ofstream(path) << text;
}

template <class Read>
std::string message_of(Read&& read) {
  try {
    read();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(TimingCache, IsReadAsItWasWritten) {
  const TemporaryFolder folder;
  const std::string path = folder.file("cache");
  TimingCache cache = TimingCache::read(path);  // none yet
  cache.set("here", "conv \"a\"\n", {{"conv", 100}, {"winograd(tile=4)", 70}});
  cache.write(path);
  const TimingCache again = TimingCache::read(path);
  ASSERT_NE(again.find("here", "conv \"a\"\n"), nullptr);
  EXPECT_EQ(*again.find("here", "conv \"a\"\n"), (TacticTimes{{"conv", 100}, {"winograd(tile=4)", 70}}));
  EXPECT_EQ(again.find("elsewhere", "conv \"a\"\n"), nullptr);
  EXPECT_EQ(again.find("here", "conv"), nullptr);
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(TimingCache, KeepsWhatAnotherProcessWrote) {
  const TemporaryFolder folder;
  const std::string path = folder.file("cache");
  TimingCache ours = TimingCache::read(path), theirs = TimingCache::read(path);
  theirs.set("there", "p", {{"a", 1}});
  theirs.write(path);
  ours.set("here", "p", {{"a", 2}});
  ours.write(path);
  const TimingCache both = TimingCache::read(path);
  EXPECT_EQ(both.find("there", "p")->at("a"), 1);
  EXPECT_EQ(both.find("here", "p")->at("a"), 2);
}

TEST(TimingCache, CutShortAnywhereIsAnErrorThatNamesTheFile) {
  const TemporaryFolder folder;
  const std::string path = folder.file("cache");
  TimingCache cache;
  cache.set("here", "p", {{"a", 1}});
  cache.write(path);
  const std::string whole = read_text(path);
  for (size_t size = 1; size + 1 < whole.size(); ++size) {  // without the last line's end it is whole
    write_text(path, whole.substr(0, size));
    EXPECT_NE(message_of([&] { TimingCache::read(path); }).find(path), std::string::npos) << size;
  }
}

TEST(TimingCache, RefusesWhatIsNone) {
  const TemporaryFolder folder;
  const std::string path = folder.file("cache");
  for (const char* text :
       {"[]", "{}", "3", R"({"camshaft_timing_cache": 2, "machines": {}})", R"({"camshaft_lock": 1})",
        R"({"camshaft_timing_cache": 1})", R"({"camshaft_timing_cache": 1, "machines": 3})",
        R"({"camshaft_timing_cache": 1, "machines": {"m": {"p": {"a": "x"}}}})",
        R"({"camshaft_timing_cache": 1, "machines": {"m": {"p": {"a": 0}}}})",
        R"({"camshaft_timing_cache": 1, "machines": {"m": {"p": {"a": 1.5}}}})"}) {
    write_text(path, text);
    EXPECT_NE(message_of([&] { TimingCache::read(path); }).find("timing cache"), std::string::npos) << text;
  }
}

TEST(LockFile, IsReadAsItWasWritten) {
  const TemporaryFolder folder;
  const std::string path = folder.file("lock");
  LockFile lock{"m.onnx", "00ff", "cpu avx2", "measured", "1.2.3", {}, {"conv 1", "fc"}};
  lock.layers = {{"y", "abcd", "conv", {{"conv", 5, 7, false}, {"winograd", 4, -1, true}}}, {"z", "ef", "pool", {}}};
  lock.write(path);
  const LockFile again = LockFile::read(path);
  EXPECT_EQ(again.layers, lock.layers);
  EXPECT_EQ(again.model + again.model_hash + again.device + again.tuning + again.made_by,
            "m.onnx00ffcpu avx2measured1.2.3");
  const std::string whole = read_text(path);
  again.write(path);
  EXPECT_EQ(read_text(path), whole);
  for (size_t size = 1; size + 1 < whole.size(); size += 7) {
    write_text(path, whole.substr(0, size));
    EXPECT_NE(message_of([&] { LockFile::read(path); }).find("lock file"), std::string::npos) << size;
  }
  EXPECT_THROW(LockFile::read(folder.file("none")), Error);
}

}  // namespace
}  // namespace camshaft::timing_cache_test
