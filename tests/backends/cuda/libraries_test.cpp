// Where NVIDIA's libraries are looked for.
#include "backends/cuda/libraries/libraries.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/temporary_folder.h"

namespace camshaft::cuda::libraries_test {
namespace {

namespace fs = std::filesystem;

// An environment of Python with a library of NVIDIA's: the folder of that.
std::string make_environment(const fs::path& prefix) {
  const fs::path folder = prefix / "lib/python3.12/site-packages/nvidia/cudnn/lib";
  fs::create_directories(folder);
  return folder.string();
}

size_t place_of(const std::string& folder) {
  const std::vector<std::string> all = library_folders();
  return static_cast<size_t>(std::find(all.begin(), all.end(), folder) - all.begin());
}

TEST(Libraries, TheRunningPythonsComeBeforeThoseOfVariables) {
  TemporaryFolder folder;
  const fs::path running = fs::path(folder.file("running")), named = folder.file("named"), shell = folder.file("shell");
  const std::string of_running = make_environment(running), of_named = make_environment(named),
                    of_shell = make_environment(shell);
  fs::create_directories(shell / "bin");
  const DynamicLibrary known({"libm.so.6"}, {});
  fs::copy_file(fs::canonical(known.path()), shell / "bin/python3");
  const char* path = std::getenv("PATH");
  const char* environment = std::getenv("VIRTUAL_ENV");
  const std::string old_path = path ? path : "", old_environment = environment ? environment : "";
  setenv("PATH", (shell / "bin").c_str(), 1);
  setenv("VIRTUAL_ENV", named.c_str(), 1);

  EXPECT_EQ(place_of(of_running), library_folders().size());
  EXPECT_LT(place_of(of_named), place_of(of_shell));
  EXPECT_LT(place_of(of_shell), library_folders().size());
  {
    // What a module of that Python is to the process.
    const fs::path module = running / "lib/python3.12/site-packages/numpy/core.so";
    fs::create_directories(module.parent_path());
    fs::copy_file(fs::canonical(known.path()), module);
    const DynamicLibrary loaded({module.filename().string()}, {module.parent_path().string()});
    ASSERT_TRUE(loaded) << loaded.why();
    EXPECT_LT(place_of(of_running), place_of(of_named));
  }

  setenv("PATH", old_path.c_str(), 1);
  environment ? setenv("VIRTUAL_ENV", old_environment.c_str(), 1) : unsetenv("VIRTUAL_ENV");
}

}  // namespace
}  // namespace camshaft::cuda::libraries_test
