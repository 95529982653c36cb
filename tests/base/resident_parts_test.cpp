#include "base/resident_parts.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "base/available_memory.h"
#include "base/error.h"
#include "base/expect_in_child.h"
#include "base/temporary_folder.h"
#include "test_random.h"

namespace camshaft::resident_parts_test {
namespace {

constexpr size_t part = ResidentParts::alignment;
constexpr size_t huge = size_t{2} << 20;

std::vector<std::byte> random_bytes(size_t size) {
  Random random = test_random();
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i + 8 <= size; i += 8) {
    const uint64_t number = random.next();
    std::memcpy(bytes.data() + i, &number, 8);
  }
  return bytes;
}

// Bytes of the process's memory that are no file's, in kB.
size_t anonymous_kb() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:")) return std::stoul(line.substr(8));
  return 0;
}

class Parts : public ::testing::Test {
 protected:
  explicit Parts(size_t size = 5 * huge + 3 * part + 1234) : bytes_(random_bytes(size)) {
    std::ofstream(path()).write(reinterpret_cast<const char*>(bytes_.data()), static_cast<std::streamsize>(size));
    file_ = MappedFile::open_with_descriptor(path());
  }
  std::string path() const { return folder_.file("file"); }
  void expect_all_bytes() const { EXPECT_EQ(std::memcmp(file_->data(), bytes_.data(), bytes_.size()), 0); }

  TemporaryFolder folder_;
  std::vector<std::byte> bytes_;
  std::shared_ptr<const MappedFile> file_;
};

TEST_F(Parts, BytesAreTheSameWhetherTheyAreBroughtOrNot) {
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file_->data()) % huge, 0u);
  ResidentParts parts(file_);
  expect_all_bytes();
  parts.bring(0, huge);
  parts.bring(huge + part, part);
  parts.bring(2 * huge, 3 * huge);
  const size_t last = bytes_.size() / part * part;
  parts.bring(last, bytes_.size() - last);  // up to the file's end
  expect_all_bytes();
  parts.bring(huge + part, 2 * part);  // again, and more
  parts.drop(huge, part);              // which was not brought
  parts.drop(2 * huge + part, huge);   // a part of what was
  expect_all_bytes();
  parts.drop(0, bytes_.size());
  expect_all_bytes();
}

TEST_F(Parts, OnlyWhatIsBroughtIsInTheProcessesMemory) {
#ifdef CAMSHAFT_SANITIZED
  GTEST_SKIP() << "sanitizers have memory of their own";
#endif
  ResidentParts parts(file_);
  const size_t before = anonymous_kb();
  parts.bring(0, 4 * huge);
  const size_t brought = anonymous_kb();
  EXPECT_GE(brought, before + 4 * huge / 1024);
  EXPECT_LT(brought, before + 4 * huge / 1024 + 1024);
  parts.drop(0, 4 * huge);
  EXPECT_LT(anonymous_kb(), before + 1024);
}

TEST_F(Parts, MemoryForTheNextIsMadeReady) {
  ResidentParts parts(file_);
  parts.bring(0, huge, 2 * huge);
  parts.bring(huge, huge, huge);          // of what is ready for more
  parts.bring(2 * huge, 2 * huge, part);  // of what is not enough
  parts.bring(4 * huge, part, 4 * huge);
  parts.drop_ahead();
  const size_t rest = 4 * huge + part;
  parts.bring(rest, bytes_.size() - rest, huge);
  expect_all_bytes();
}

TEST_F(Parts, AFileThatWasCutIsAnError) {
  ResidentParts parts(file_);
  ASSERT_EQ(truncate(path().c_str(), huge), 0);
  parts.bring(0, huge);
  try {
    parts.bring(huge, huge);
    FAIL() << "it was read";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_EQ(std::string(error.what()), path() + ": the file was cut since it was opened; load it anew");
  }
  EXPECT_EQ(std::memcmp(file_->data(), bytes_.data(), huge), 0);
}

TEST_F(Parts, AFileThatWasReplacedIsReadAsItWas) {
  std::ofstream(folder_.file("other")) << "other bytes";
  ASSERT_EQ(rename(folder_.file("other").c_str(), path().c_str()), 0);
  ResidentParts parts(file_);
  parts.bring(0, huge);
  expect_all_bytes();
}

TEST_F(Parts, ForkedChildrenReadThemToo) {
  ResidentParts parts(file_);
  parts.bring(huge, huge);
  expect_in_child([&] {
    ResidentParts own(file_);
    own.bring(0, huge);
    return std::memcmp(file_->data(), bytes_.data(), bytes_.size()) == 0;
  });
  expect_all_bytes();
}

TEST(ResidentParts, MemoryHasNone) {
  const std::vector<std::byte> bytes(100);
  EXPECT_THROW(ResidentParts(MappedFile::from_bytes(bytes)), Error);
  EXPECT_THROW(ResidentParts(MappedFile::open("/proc/self/exe")), Error);  // whose descriptor was not kept
  const auto file = MappedFile::in_unnamed_file(bytes, "a parcel");
  EXPECT_EQ(file->path(), "a parcel");
  ResidentParts parts(file);
  parts.bring(0, 100);
  EXPECT_EQ(std::memcmp(file->data(), bytes.data(), 100), 0);
}

TEST(ResidentParts, UnnamedFilesNeedAFolder) {
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before ? before : "";
  setenv("TMPDIR", "/nowhere at all", 1);
  try {
    MappedFile::in_unnamed_file(std::vector<std::byte>(100), "a parcel");
    ADD_FAILURE() << "it was written";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_NE(std::string(error.what()).find("set TMPDIR"), std::string::npos) << error.what();
  }
  before ? setenv("TMPDIR", kept.c_str(), 1) : unsetenv("TMPDIR");
}

TEST(AvailableMemory, IsSome) {
  EXPECT_GT(available_memory(), size_t{1} << 20);
}

}  // namespace
}  // namespace camshaft::resident_parts_test
