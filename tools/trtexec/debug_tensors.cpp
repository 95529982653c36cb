#include "tools/trtexec/debug_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <sstream>

#include "camshaft/error.hpp"
#include "tools/atomic_file.h"
#include "tools/npy.h"
#include "tools/tensor_text.h"
#include "tools/trtexec/summary.h"

namespace camshaft::tools::trtexec {

namespace {

void write_parts(const std::string& path, std::initializer_list<std::span<const std::byte>> parts) {
  AtomicFile file(path);
  for (const std::span<const std::byte> part : parts) file.write(part);
  file.commit();
}

std::span<const std::byte> bytes_of_text(const std::string& text) {
  return std::as_bytes(std::span(text));
}

void save_debug_tensor(const std::string& name, const Tensor& tensor, const std::string& format) {
  std::string file = name;
  std::ranges::replace(file, '/', '_');
  if (format == "summary") {
    say('I', fmt::format("Debug tensor {} ({}): {}", name, dims_text(tensor.dims()), statistics(tensor)));
  } else if (format == "raw") {
    write_parts(file + ".raw", {tensor.span()});
  } else if (format == "numpy") {
    const NpyContent content = npy_content(to_numpy(tensor));
    write_parts(file + ".npy", {bytes_of_text(content.header), content.elements});
  } else {
    write_parts(file + ".txt", {bytes_of_text(elements(tensor) + "\n")});
  }
}

}  // namespace

std::vector<std::string> debug_tensors_of(const Engine& engine) {
  const auto found = engine.metadata().find("debug_tensors");
  std::vector<std::string> names;
  std::istringstream lines(found == engine.metadata().end() ? "" : found->second);
  for (std::string name; std::getline(lines, name);) names.push_back(name);
  return names;
}

void save_debug_tensors(const Engine& engine, Context& context, const DebugSettings& settings) {
  const std::vector<std::string> marked = debug_tensors_of(engine);
  const auto tensor_of = [&](const std::string& name) {
    const Tensor tensor = context.output(name);
    return tensor.device().is_host() ? tensor : tensor.copy("cpu");
  };
  for (const auto& [name, path] : settings.files) {
    if (std::ranges::find(marked, name) == marked.end())
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("--saveDebugTensors: '{}' was not marked when the engine was built (--markDebug); {}",
                              name, marked.empty() ? "nothing was" : fmt::format("{} were", fmt::join(marked, ", "))));
    write_parts(path, {tensor_of(name).span()});
  }
  for (const std::string& name : marked)
    for (const std::string& format : settings.formats) save_debug_tensor(name, tensor_of(name), format);
}

}  // namespace camshaft::tools::trtexec
