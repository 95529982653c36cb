#include "base/dynamic_library.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/temporary_folder.h"

namespace camshaft::dynamic_library_test {
namespace {

TEST(DynamicLibrary, FindsFunctions) {
  const DynamicLibrary library({"libnone.so.9", "libm.so.6"}, {"/nowhere"});
  ASSERT_TRUE(library);
  EXPECT_NE(library.path().find("libm"), std::string::npos);
  EXPECT_NE(library.symbol("cos"), nullptr);
  EXPECT_EQ(library.symbol("no_such_function"), nullptr);
}

TEST(DynamicLibrary, SaysWhyNot) {
  const DynamicLibrary missing({"libnone.so.9"}, {});
  EXPECT_FALSE(missing);
  EXPECT_EQ(missing.symbol("cos"), nullptr);
  EXPECT_NE(missing.why().find("libnone.so.9"), std::string::npos);
  TemporaryFolder folder;
  std::ofstream(folder.file("libnone.so.9")) << "not a library";
  const DynamicLibrary damaged({"libnone.so.9"}, {folder.file("")});
  EXPECT_FALSE(damaged);
  EXPECT_NE(damaged.why().find(folder.file("libnone.so.9")), std::string::npos) << damaged.why();
}

TEST(DynamicLibrary, FindsWhatTheProcessHasLoaded) {
  const DynamicLibrary known({"libm.so.6"}, {});
  TemporaryFolder folder;
  std::filesystem::copy_file(std::filesystem::canonical(known.path()), folder.file("libanother.so"));
  EXPECT_FALSE(DynamicLibrary::loaded({"libnone.so.9", folder.file("libanother.so")}));
  const DynamicLibrary found = DynamicLibrary::loaded({"libnone.so.9", "libm.so.6"});
  ASSERT_TRUE(found);
  EXPECT_EQ(found.path(), known.path());
  EXPECT_EQ(found.symbol("cos"), known.symbol("cos"));
}

}  // namespace
}  // namespace camshaft::dynamic_library_test
