#include "server/core/repository.h"

#include <gtest/gtest.h>

#include "server/core/status.h"
#include "server/core/temporary_folder.h"

namespace camshaft::server::repository_test {
namespace {

TEST(Repository, FindsModelsAndTheirVersions) {
  const TemporaryFolder folder;
  for (const char* file : {"a/1/model.onnx", "a/10/model.onnx", "a/2/model.onnx", "a/config.pbtxt", "a/01/x", "a/x1/x",
                           "b/config.pbtxt", "file", ".hidden/1/model.onnx"})
    folder.write(file, "text");
  const auto models = scan_repositories({folder.path()});
  ASSERT_EQ(models.size(), 2);
  EXPECT_EQ(models.at("a").versions, std::vector<int64_t>({1, 2, 10}));
  EXPECT_TRUE(models.at("b").versions.empty());
}

TEST(Repository, FingerprintsTellWhatChanged) {
  const TemporaryFolder folder;
  folder.write("a/1/model.onnx", "one");
  folder.write("a/2/model.onnx", "two");
  folder.write("a/config.pbtxt", "");
  const ModelFolder before = find_model({folder.path()}, "a");
  EXPECT_EQ(find_model({folder.path()}, "a").fingerprint, before.fingerprint);
  folder.write("a/2/model.onnx", "other");
  const ModelFolder after = find_model({folder.path()}, "a");
  EXPECT_NE(after.fingerprint, before.fingerprint);
  EXPECT_EQ(after.version_fingerprints.at(1), before.version_fingerprints.at(1));
  EXPECT_NE(after.version_fingerprints.at(2), before.version_fingerprints.at(2));
  EXPECT_EQ(after.config_fingerprint, before.config_fingerprint);
  folder.write("a/config.pbtxt", "name: 'a'");
  EXPECT_NE(find_model({folder.path()}, "a").config_fingerprint, before.config_fingerprint);
}

TEST(Repository, NamesDoNotLeadOut) {
  const TemporaryFolder folder;
  folder.write("models/a/1/model.onnx", "text");
  folder.write("secret/1/model.onnx", "text");
  std::filesystem::create_directory_symlink(folder.path() / "secret", folder.path() / "models/link");
  const auto repository = folder.path() / "models";
  for (const std::string name :
       {"..", ".", "", "../secret", "a/1", "/", "link", "nothing", std::string("a\0b", 3).c_str()})
    EXPECT_THROW(find_model({repository}, name), ServerError) << name;
  EXPECT_EQ(scan_repositories({repository}).count("link"), 0);
}

TEST(Repository, ANameIsOneModels) {
  const TemporaryFolder folder;
  folder.write("one/a/1/model.onnx", "text");
  folder.write("two/a/1/model.onnx", "text");
  EXPECT_THROW(scan_repositories({folder.path() / "one", folder.path() / "two"}), ServerError);
  EXPECT_THROW(find_model({folder.path() / "one", folder.path() / "two"}, "a"), ServerError);
  EXPECT_THROW(scan_repositories({folder.path() / "nothing"}), ServerError);
}

TEST(Repository, VersionsAreNumbers) {
  EXPECT_EQ(parse_version("12"), 12);
  EXPECT_EQ(parse_version("0"), 0);
  for (const char* text : {"", "-1", "+1", "01", "1a", "1.0", "99999999999999999999", " 1"})
    EXPECT_FALSE(parse_version(text)) << text;
}

TEST(TemporaryFolder, FilesDoNotLeadOut) {
  const TemporaryFolder folder;
  for (const std::string name : {"", "/tmp/x", "../x", "a/../../x", "a/.."})
    EXPECT_THROW(folder.write(name, "text"), ServerError) << name;
}

}  // namespace
}  // namespace camshaft::server::repository_test
