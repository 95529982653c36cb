#include "backends/cuda/driver/kernel_cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/logger.h"
#include "base/temporary_folder.h"

namespace camshaft::cuda::kernel_cache_test {
namespace {

namespace fs = std::filesystem;

// A compiler that counts, and whose machine code is the text's length.
struct FakeNvrtc {
  static inline int compiled = 0;
  static inline std::string text;

  static Library<api::Nvrtc> library(const std::string& version) {
    Library<api::Nvrtc> made;
    made.version = version;
    api::Nvrtc& f = made.functions;
    f.nvrtcGetNumSupportedArchs = [](int* count) {
      *count = 2;
      return api::Result{api::success};
    };
    f.nvrtcGetSupportedArchs = [](int* archs) {
      archs[0] = 80;
      archs[1] = 90;
      return api::Result{api::success};
    };
    f.nvrtcCreateProgram = [](api::Handle* program, const char* source, const char*, int, const char* const*,
                              const char* const*) {
      text = source;
      *program = &text;
      return api::Result{api::success};
    };
    f.nvrtcDestroyProgram = [](api::Handle*) { return api::Result{api::success}; };
    f.nvrtcCompileProgram = [](api::Handle, int, const char* const*) {
      ++compiled;
      return api::Result{text == "wrong" ? 6 : 0};
    };
    f.nvrtcGetCUBINSize = [](api::Handle, size_t* bytes) {
      *bytes = text.size();
      return api::Result{api::success};
    };
    f.nvrtcGetCUBIN = [](api::Handle, char* cubin) {
      text.copy(cubin, text.size());
      return api::Result{api::success};
    };
    f.nvrtcGetProgramLogSize = [](api::Handle, size_t* bytes) {
      *bytes = 10;
      return api::Result{api::success};
    };
    f.nvrtcGetProgramLog = [](api::Handle, char* log) {
      std::string("line 1: no").copy(log, 10);
      return api::Result{api::success};
    };
    return made;
  }
};

class Collector final : public Logger {
 public:
  explicit Collector(std::vector<std::string>& messages) : messages_(messages) {}
  void log(LogLevel, std::string_view message) noexcept override { messages_.emplace_back(message); }

 private:
  std::vector<std::string>& messages_;
};

Cubin bytes_of(const std::string& text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

TEST(KernelCache, CompilesOnceForEachTextArchitectureAndVersion) {
  TemporaryFolder folder;
  const auto library = FakeNvrtc::library("13.0"), newer = FakeNvrtc::library("13.1");
  const Compiler compiler(library), newer_compiler(newer);
  const KernelCache cache(folder.file("kernels"));
  FakeNvrtc::compiled = 0;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(cache.get(compiler, {"k", "one", "sm_80"}), bytes_of("one"));
    EXPECT_EQ(cache.get(compiler, {"k", "another", "sm_80"}), bytes_of("another"));
    EXPECT_EQ(cache.get(compiler, {"k", "one", "sm_90a"}), bytes_of("one"));
    EXPECT_EQ(cache.get(newer_compiler, {"k", "one", "sm_80"}), bytes_of("one"));
  }
  EXPECT_EQ(FakeNvrtc::compiled, 4);
}

TEST(KernelCache, DamagedFilesAreCompiledAgain) {
  TemporaryFolder folder;
  const auto library = FakeNvrtc::library("13.0");
  const Compiler compiler(library);
  const KernelCache cache(folder.file("kernels"));
  FakeNvrtc::compiled = 0;
  cache.get(compiler, {"k", "a text", "sm_80"});
  const fs::path file = fs::directory_iterator(folder.file("kernels"))->path();
  for (const uintmax_t size : {fs::file_size(file) - 1, uintmax_t{3}, uintmax_t{0}}) {
    fs::resize_file(file, size);
    EXPECT_EQ(cache.get(compiler, {"k", "a text", "sm_80"}), bytes_of("a text"));
  }
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary) << "X";
  EXPECT_EQ(cache.get(compiler, {"k", "a text", "sm_80"}), bytes_of("a text"));
  EXPECT_EQ(FakeNvrtc::compiled, 5);
}

TEST(KernelCache, FilesOfAnotherKeyAreCompiledAgain) {
  TemporaryFolder folder;
  const auto library = FakeNvrtc::library("13.0");
  const Compiler compiler(library);
  const KernelCache cache(folder.file("kernels"));
  cache.get(compiler, {"k", "one", "sm_80"});
  const fs::path one = fs::directory_iterator(folder.file("kernels"))->path();
  cache.get(compiler, {"k", "two", "sm_80"});
  fs::path two;
  for (const auto& entry : fs::directory_iterator(folder.file("kernels")))
    if (entry.path() != one) two = entry.path();
  ASSERT_FALSE(two.empty());
  fs::copy_file(one, two, fs::copy_options::overwrite_existing);
  FakeNvrtc::compiled = 0;
  EXPECT_EQ(cache.get(compiler, {"k", "two", "sm_80"}), bytes_of("two"));
  EXPECT_EQ(FakeNvrtc::compiled, 1);
  EXPECT_EQ(cache.get(compiler, {"k", "two", "sm_80"}), bytes_of("two"));
  EXPECT_EQ(FakeNvrtc::compiled, 1) << "the right one is there again";
}

TEST(KernelCache, FilesThatOthersMayWriteAreCompiledAgain) {
  TemporaryFolder folder;
  const auto library = FakeNvrtc::library("13.0");
  const Compiler compiler(library);
  const KernelCache cache(folder.file("kernels"));
  cache.get(compiler, {"k", "one", "sm_80"});
  const fs::path file = fs::directory_iterator(folder.file("kernels"))->path();
  EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  FakeNvrtc::compiled = 0;
  fs::permissions(file, fs::perms::group_write, fs::perm_options::add);
  cache.get(compiler, {"k", "one", "sm_80"});
  EXPECT_EQ(FakeNvrtc::compiled, 1);
  cache.get(compiler, {"k", "one", "sm_80"});
  EXPECT_EQ(FakeNvrtc::compiled, 1) << "it was written anew, for its owner alone";
}

TEST(KernelCache, AFolderThatOthersMayWriteIsNotUsedWithOneWarning) {
  TemporaryFolder folder;
  const auto library = FakeNvrtc::library("13.0");
  const Compiler compiler(library);
  const KernelCache cache(folder.file("kernels"));
  FakeNvrtc::compiled = 0;
  cache.get(compiler, {"k", "one", "sm_80"});
  EXPECT_EQ(fs::status(folder.file("kernels")).permissions(), fs::perms::owner_all);
  fs::permissions(folder.file("kernels"), fs::perms::group_write, fs::perm_options::add);
  std::vector<std::string> warnings;
  {
    set_logger(std::make_shared<Collector>(warnings));
    for (int i = 0; i < 2; ++i) EXPECT_EQ(cache.get(compiler, {"k", "one", "sm_80"}), bytes_of("one"));
    set_logger(nullptr);
  }
  EXPECT_EQ(FakeNvrtc::compiled, 3);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find(folder.file("kernels")), std::string::npos);
  EXPECT_NE(warnings[0].find("chmod go-w"), std::string::npos);
  fs::permissions(folder.file("kernels"), fs::perms::group_write, fs::perm_options::remove);
  EXPECT_EQ(cache.get(compiler, {"k", "one", "sm_80"}), bytes_of("one"));
  EXPECT_EQ(FakeNvrtc::compiled, 3);
}

// Giving a file away is root's alone.
TEST(KernelCache, WhatBelongsToAnotherUserIsNotUsed) {
  TemporaryFolder folder;
  const auto library = FakeNvrtc::library("13.0");
  const Compiler compiler(library);
  const std::string kernels = folder.file("kernels");
  const KernelCache cache(kernels);
  FakeNvrtc::compiled = 0;
  cache.get(compiler, {"k", "one", "sm_80"});
  const fs::path file = fs::directory_iterator(kernels)->path();
  constexpr uid_t nobody = 65534;
  if (chown(file.c_str(), nobody, static_cast<gid_t>(-1)) != 0) GTEST_SKIP() << "only root may give files away";
  EXPECT_EQ(cache.get(compiler, {"k", "one", "sm_80"}), bytes_of("one"));
  EXPECT_EQ(FakeNvrtc::compiled, 2) << "the file is another's";
  cache.get(compiler, {"k", "one", "sm_80"});
  EXPECT_EQ(FakeNvrtc::compiled, 2) << "it was replaced by one's own";
  ASSERT_EQ(chown(kernels.c_str(), nobody, static_cast<gid_t>(-1)), 0);
  std::vector<std::string> warnings;
  set_logger(std::make_shared<Collector>(warnings));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(cache.get(compiler, {"k", "one", "sm_80"}), bytes_of("one"));
  set_logger(nullptr);
  EXPECT_EQ(FakeNvrtc::compiled, 4) << "the folder is another's";
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("belongs to another user"), std::string::npos) << warnings[0];
}

// Any byte: of the magic, the key, the code, the hash.
TEST(KernelCache, FilesWithAnyByteAlteredAreCompiledAgain) {
  TemporaryFolder folder;
  const auto library = FakeNvrtc::library("13.0");
  const Compiler compiler(library);
  const KernelCache cache(folder.file("kernels"));
  cache.get(compiler, {"k", "a text", "sm_80"});
  const fs::path file = fs::directory_iterator(folder.file("kernels"))->path();
  FakeNvrtc::compiled = 0;
  const auto size = static_cast<std::streamoff>(fs::file_size(file));
  for (std::streamoff at = 0; at < size; ++at) {
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    const int before = stream.seekg(at).get();
    stream.seekp(at).put(static_cast<char>(before ^ 0x20));
    stream.close();
    EXPECT_EQ(cache.get(compiler, {"k", "a text", "sm_80"}), bytes_of("a text")) << "byte " << at;
    EXPECT_EQ(FakeNvrtc::compiled, at + 1) << "byte " << at;
  }
}

TEST(KernelCache, AFolderThatCannotBeWrittenCostsOnlyTime) {
  const auto library = FakeNvrtc::library("13.0");
  const Compiler compiler(library);
  for (const char* folder : {"", "/proc/nowhere"})
    EXPECT_EQ(KernelCache(folder).get(compiler, {"k", "text", "sm_80"}), bytes_of("text"));
}

TEST(Compiler, Refusals) {
  const auto library = FakeNvrtc::library("13.0");
  const Compiler compiler(library);
  const auto message = [&](const KernelSource& source) -> std::string {
    try {
      compiler.compile(source);
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(message({"k", "wrong", "sm_80"}), "the kernel 'k' does not compile: line 1: no");
  EXPECT_EQ(message({"k", "text", "sm_75"}),
            "NVRTC 13.0 does not know sm_75, only sm_80, sm_90; install another version");
  Library<api::Nvrtc> missing;
  missing.problem = "no CUDA compiler";
  EXPECT_THROW(Compiler{missing}, Error);
  EXPECT_EQ(architecture(75), "sm_75");
  EXPECT_EQ(architecture(90), "sm_90a");
}

}  // namespace
}  // namespace camshaft::cuda::kernel_cache_test
