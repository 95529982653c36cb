#include "base/mapped_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <span>
#include <string>

#include "base/error.h"
#include "base/temporary_folder.h"

namespace camshaft::mapped_file_test {
namespace {

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.data()), file.size()};
}

std::string message_of(const std::string& path) {
  try {
    MappedFile::open(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_NE(std::string(error.what()).find(path), std::string::npos) << error.what();
    return error.what();
  }
  return "it opened";
}

TEST(MappedFile, maps_a_file_and_keeps_it) {
  TemporaryFolder folder;
  const std::string path = folder.file("a.bin");
  std::ofstream(path) << "some bytes";
  std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  EXPECT_EQ(file->path(), path);
  unlink(path.c_str());
  EXPECT_EQ(text_of(*file), "some bytes");
  file->prefetch(0, 4);
  file->prefetch(5, SIZE_MAX);
  file->prefetch(100, 1);
}

TEST(MappedFile, owns_bytes) {
  const auto file = MappedFile::from_bytes(std::as_bytes(std::span("hi", 2)), "a parcel");
  EXPECT_EQ(text_of(*file), "hi");
  EXPECT_EQ(file->path(), "a parcel");
  file->prefetch(0, 2);
  EXPECT_EQ(MappedFile::from_bytes({})->size(), 0u);
}

TEST(MappedFile, says_why_a_path_cannot_be_read) {
  TemporaryFolder folder;
  EXPECT_NE(message_of(folder.file("absent")).find("no such file"), std::string::npos);
  EXPECT_NE(message_of(folder.path()).find("directory"), std::string::npos);
  std::ofstream(folder.file("empty")).flush();
  EXPECT_NE(message_of(folder.file("empty")).find("empty"), std::string::npos);
  ASSERT_EQ(mkfifo(folder.file("pipe").c_str(), 0600), 0);
  EXPECT_NE(message_of(folder.file("pipe")).find("regular"), std::string::npos);
  EXPECT_NE(message_of("/dev/null").find("regular"), std::string::npos);
  if (geteuid() != 0) {  // root may read everything
    std::ofstream(folder.file("secret")) << "x";
    chmod(folder.file("secret").c_str(), 0);
    EXPECT_NE(message_of(folder.file("secret")).find("ermission"), std::string::npos);
  }
}

}  // namespace
}  // namespace camshaft::mapped_file_test
