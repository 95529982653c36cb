#include "backends/cuda/driver/kernel_cache.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/temporary_folder.h"

namespace camshaft::cuda {
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
}  // namespace camshaft::cuda
