// libnvrtc.so of the emulated GPU: the host's C++ compiler, on a kernel's text with CUDA's words defined in front.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <regex>
#include <string>
#include <type_traits>
#include <vector>

#include "backends/cuda/driver/c_api.h"
#include "emulator_texts.h"
#include "image.h"

#define EMULATOR_API extern "C" __attribute__((visibility("default")))

using namespace camshaft::cuda::api;

namespace {

namespace fs = std::filesystem;

enum : Result { invalid_input = 3, invalid_program = 4, invalid_option = 5, compilation = 6, internal = 11 };

// Memory of one type is read as another all the time, and integers wrap. What is not aligned to its type stops.
const std::string flags =
    "-O1 -w -pipe -fPIC -shared -fvisibility=hidden -fno-strict-aliasing -fwrapv -ffp-contract=off -fno-math-errno "
    "-fno-exceptions -fno-rtti -fsanitize=alignment -fsanitize-undefined-trap-on-error "
    "-fstack-clash-protection -mtls-dialect=gnu2 ";

const std::string& front() {
  static const auto* text =
      new std::string(std::string(emulator::texts::interface_h) + std::string(emulator::texts::cuda_language_h) +
                      std::string(emulator::texts::intrinsics_h));
  return *text;
}

struct Program {
  std::string text, name, log;
  std::vector<char> image;
};

struct TemporaryFolder {
  TemporaryFolder() {
    path = (fs::temp_directory_path() / "camshaft_emulator_XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) path.clear();
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path.empty()) fs::remove_all(path, ignored);
  }
  std::string path;
};

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The compiler's messages, if it fails.
bool run(const std::string& command, std::string& log) {
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return false;
  char buffer[4096];
  for (size_t n = 0; (n = fread(buffer, 1, sizeof buffer, pipe)) > 0;) log.append(buffer, n);
  return pclose(pipe) == 0;
}

// Behind the text: a description of every kernel in it, for the driver to find.
std::string descriptions(const std::string& preprocessed) {
  static const auto* kernel =
      new std::regex(R"(__global__\s+(?:void\s+)?(?:__launch_bounds__\s*\(([^()]*)\)\s*)?(?:void\s+)?(\w+)\s*\()");
  std::string out = "\n#line 1 \"kernels\"\n";
  for (std::sregex_iterator it(preprocessed.begin(), preprocessed.end(), *kernel), end; it != end; ++it)
    out += "extern \"C\" __attribute__((visibility(\"default\"))) constexpr emulator::Kernel camshaft_kernel_" +
           (*it)[2].str() + " = emulator::Caller<&" + (*it)[2].str() + ">::described(emulator::first_of(" +
           (*it)[1].str() + "));\n";
  return out;
}

Result compile(Program& program, int capability) {
  const TemporaryFolder folder;
  if (folder.path.empty()) {
    program.log = "no temporary folder can be made";
    return internal;
  }
  const std::string given = folder.path + "/given.cpp", whole = folder.path + "/whole.cpp",
                    preprocessed = folder.path + "/preprocessed", library = folder.path + "/library.so";
  std::ofstream(given) << front() << "\n#line 1 \"" << program.name << "\"\n" << program.text;
  const std::string compiler = std::string(EMULATOR_COMPILER) + " -std=c++20 -x c++ -D__CUDACC_RTC__ -D__CUDA_ARCH__=" +
                               std::to_string(10 * capability) + " ";
  // Preprocessed first: then the kernels that are left are the kernels that there are.
  if (!run(compiler + "-w -E " + given + " -o " + preprocessed, program.log)) return compilation;
  std::string text = read(preprocessed);
  // alignas() stands in front of everything else in C++.
  static const auto* misplaced = new std::regex(R"(static\s+thread_local\s+(alignas\s*\([^()]*\)))");
  text = std::regex_replace(text, *misplaced, "$1 static thread_local");
  std::ofstream(whole) << "#define __global__\n#define __launch_bounds__(...)\n" << text << descriptions(text);
  if (!run(compiler + flags + whole + " -o " + library, program.log)) return compilation;
  const std::string code = read(library);
  emulator::Image header;
  header.capability = static_cast<uint32_t>(capability);
  header.bytes = code.size();
  header.checksum = emulator::checksum(code.data(), code.size());
  program.image.resize(sizeof header);
  std::memcpy(program.image.data(), &header, sizeof header);
  program.image.insert(program.image.end(), code.begin(), code.end());
  return success;
}

constexpr int architectures[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};

}  // namespace

// The minor version changes with what makes the code, so that what is kept of earlier versions is not used.
EMULATOR_API Result nvrtcVersion(int* major, int* minor) {
  const std::string all = front() + flags + EMULATOR_COMPILER;
  *major = 13;
  *minor = 1000 + static_cast<int>(emulator::checksum(all.data(), all.size()) % 1'000'000'000);
  return success;
}

EMULATOR_API Result nvrtcGetNumSupportedArchs(int* count) {
  *count = static_cast<int>(std::size(architectures));
  return success;
}

EMULATOR_API Result nvrtcGetSupportedArchs(int* archs) {
  std::copy(std::begin(architectures), std::end(architectures), archs);
  return success;
}

EMULATOR_API Result nvrtcCreateProgram(Handle* program, const char* text, const char* name, int headers,
                                       const char* const*, const char* const*) {
  if (text == nullptr || headers != 0) return invalid_input;
  auto* made = new Program;
  made->text = text;
  made->name = name != nullptr ? name : "default_program";
  *program = made;
  return success;
}

EMULATOR_API Result nvrtcDestroyProgram(Handle* program) {
  delete static_cast<Program*>(*program);
  *program = nullptr;
  return success;
}

EMULATOR_API Result nvrtcCompileProgram(Handle handle, int options, const char* const* option) {
  if (handle == nullptr) return invalid_program;
  auto& program = *static_cast<Program*>(handle);
  int capability = 0;
  for (int i = 0; i < options; ++i)
    if (constexpr const char* arch = "--gpu-architecture=sm_"; std::strncmp(option[i], arch, std::strlen(arch)) == 0)
      capability = std::atoi(option[i] + std::strlen(arch));
  if (capability == 0) return invalid_option;
  return compile(program, capability);
}

EMULATOR_API Result nvrtcGetCUBINSize(Handle program, size_t* bytes) {
  *bytes = static_cast<Program*>(program)->image.size();
  return success;
}

EMULATOR_API Result nvrtcGetCUBIN(Handle program, char* cubin) {
  const std::vector<char>& image = static_cast<Program*>(program)->image;
  std::copy(image.begin(), image.end(), cubin);
  return success;
}

EMULATOR_API Result nvrtcGetProgramLogSize(Handle program, size_t* bytes) {
  *bytes = static_cast<Program*>(program)->log.size() + 1;
  return success;
}

EMULATOR_API Result nvrtcGetProgramLog(Handle program, char* log) {
  std::strcpy(log, static_cast<Program*>(program)->log.c_str());  // NOLINT: the caller asked for the size
  return success;
}

// What the product looks up and this file lacks, or has with other parameters, is an error here.
#define EMULATOR_CHECK(name, parameters) static_assert(std::is_same_v<decltype(&name), Result(*) parameters>);
CAMSHAFT_CUDA_NVRTC(EMULATOR_CHECK)
