#include "backends/cuda/driver/compiler.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "backends/cuda/driver/device_features.h"
#include "base/error.h"

namespace camshaft::cuda {

namespace {

/// An nvrtcProgram.
class Program {
 public:
  Program(const api::Nvrtc& nvrtc, const KernelSource& source) : nvrtc_(nvrtc), name_(source.name) {
    check(nvrtc.nvrtcCreateProgram(&handle_, source.text.c_str(), (source.name + ".cu").c_str(), 0, nullptr, nullptr));
  }
  ~Program() { nvrtc_.nvrtcDestroyProgram(&handle_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void check(api::Result result) const {
    if (result != api::success)
      throw Error(ErrorCode::internal, fmt::format("the kernel '{}' does not compile: {}", name_, log()));
  }

  std::string log() const {
    size_t bytes = 0;
    if (handle_ == nullptr || nvrtc_.nvrtcGetProgramLogSize(handle_, &bytes) != api::success || bytes == 0)
      return "NVRTC gives no reason";
    std::string text(bytes, '\0');
    nvrtc_.nvrtcGetProgramLog(handle_, text.data());
    text.resize(std::min(text.find('\0'), text.size()));
    return text;
  }

  api::Handle handle() const { return handle_; }

 private:
  const api::Nvrtc& nvrtc_;
  std::string name_;
  api::Handle handle_ = nullptr;
};

}  // namespace

std::string architecture(int capability) {
  // wgmma, setmaxnreg and their like exist in the "a" form alone.
  return fmt::format("sm_{}{}", capability, features_of(capability).own_instructions ? "a" : "");
}

Compiler::Compiler(const Library<api::Nvrtc>& library) : nvrtc_(library.functions), version_(library.version) {
  if (!library.problem.empty()) throw Error(ErrorCode::unsupported, library.problem);
  int count = 0;
  if (nvrtc_.nvrtcGetNumSupportedArchs(&count) != api::success || count < 1)
    throw Error(ErrorCode::internal, "NVRTC does not say which architectures it knows");
  architectures_.resize(static_cast<size_t>(count));
  nvrtc_.nvrtcGetSupportedArchs(architectures_.data());
}

Cubin Compiler::compile(const KernelSource& source) const {
  const int wanted = std::atoi(source.architecture.c_str() + std::string_view("sm_").size());
  if (std::find(architectures_.begin(), architectures_.end(), wanted) == architectures_.end())
    throw Error(ErrorCode::unsupported, fmt::format("NVRTC {} does not know {}, only sm_{}; install another version",
                                                    version_, source.architecture, fmt::join(architectures_, ", sm_")));
  const Program program(nvrtc_, source);
  const std::string arch = "--gpu-architecture=" + source.architecture;
  // Results must not depend on whether a product and a sum end up in one instruction where the expression says none:
  // that is the reference's rounding, and the CPU's. Contractions ask for fused multiply-adds themselves.
  const char* options[] = {arch.c_str(), "--std=c++17", "--fmad=false", "--device-as-default-execution-space"};
  program.check(nvrtc_.nvrtcCompileProgram(program.handle(), static_cast<int>(std::size(options)), options));
  size_t bytes = 0;
  program.check(nvrtc_.nvrtcGetCUBINSize(program.handle(), &bytes));
  Cubin cubin(bytes);
  program.check(nvrtc_.nvrtcGetCUBIN(program.handle(), reinterpret_cast<char*>(cubin.data())));
  return cubin;
}

}  // namespace camshaft::cuda
