#include "pt2.h"

#include <minizip/unzip.h>

#include <cstddef>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <utility>

namespace {

using nlohmann::json;

/// The files of the archive by their names below its one folder. PyTorch stores them without compression.
std::map<std::string, std::string> read_archive(const std::string& path) {
  const std::unique_ptr<void, int (*)(void*)> archive(unzOpen64(path.c_str()), unzClose);
  if (archive == nullptr) throw std::runtime_error(path + ": it cannot be read, or is no .pt2 file");
  std::map<std::string, std::string> files;
  for (int state = unzGoToFirstFile(archive.get()); state == UNZ_OK; state = unzGoToNextFile(archive.get())) {
    char name[512] = {};
    unz_file_info64 info = {};
    if (unzGetCurrentFileInfo64(archive.get(), &info, name, sizeof(name) - 1, nullptr, 0, nullptr, 0) != UNZ_OK ||
        info.compression_method != 0 || info.uncompressed_size != info.compressed_size ||
        unzOpenCurrentFile(archive.get()) != UNZ_OK)
      throw std::runtime_error(path + ": '" + name + "' in it is not stored as PyTorch does");
    std::string bytes;
    std::vector<char> block(1 << 20);  // grows with what is there, not with what the file says
    int read = 0;
    while ((read = unzReadCurrentFile(archive.get(), block.data(), static_cast<unsigned>(block.size()))) > 0)
      bytes.append(block.data(), static_cast<size_t>(read));
    if (unzCloseCurrentFile(archive.get()) != UNZ_OK || read < 0)
      throw std::runtime_error(path + ": '" + name + "' in it is damaged");
    const std::string full = name;
    files[full.substr(full.find('/') + 1)] = std::move(bytes);
  }
  return files;
}

/// The one call of camshaft::run among the program's nodes.
const json& only_call(const json& graph) {
  const json* call = nullptr;
  for (const json& node : graph.at("nodes")) {
    const std::string target = node.at("target");
    if (target != "torch.ops.camshaft.run.default" || call != nullptr)
      throw std::runtime_error("the program is not one engine: it has the operator " + target +
                               " beside; PyTorch can run it");
    call = &node;
  }
  if (call == nullptr) throw std::runtime_error("the program has no engine of Camshaft's");
  return *call;
}

const json& argument(const json& call, const char* name) {
  for (const json& given : call.at("inputs"))
    if (given.at("name") == name) return given.at("arg");
  throw std::runtime_error(std::string("camshaft::run has no argument ") + name);
}

/// Which buffer of the program the graph calls so.
std::string buffer_named(const json& program, const std::string& name) {
  for (const json& spec : program.at("signature").at("input_specs"))
    if (spec.contains("buffer") && spec.at("buffer").at("arg").at("name") == name)
      return spec.at("buffer").at("buffer_name");
  throw std::runtime_error("the program has no buffer " + name);
}

/// The tensors that the engine reads or gives, of those that a signature lists.
std::vector<Pt2Value> tensors(const json& specs) {
  std::vector<Pt2Value> found;
  for (const json& spec : specs) {
    if (spec.at("dtype").is_null() || !spec.value("bound", true)) continue;
    Pt2Value value{spec.at("name"), {}};
    if (!spec.at("layout").is_null()) value.layout = spec.at("layout").get<std::vector<int64_t>>();
    found.push_back(std::move(value));
  }
  return found;
}

}  // namespace

Pt2Program load_pt2(const std::string& path) try {
  const std::map<std::string, std::string> files = read_archive(path);
  const json program = json::parse(files.at("models/model.json")).at("graph_module");
  const json& call = only_call(program.at("graph"));
  const std::string buffer = buffer_named(program, argument(call, "engine").at("as_tensor").at("name"));
  const json weights = json::parse(files.at("data/weights/model_weights_config.json"));
  const std::string file = weights.at("config").at(buffer).at("path_name");
  const std::string& bytes = files.at("data/weights/" + file);
  const json signature = json::parse(argument(call, "signature").at("as_string").get<std::string>());
  return {camshaft::Engine::load(std::as_bytes(std::span(bytes)), signature.at("device").get<std::string>()),
          tensors(signature.at("inputs")), tensors(signature.at("outputs"))};
} catch (const json::exception& error) {
  throw std::runtime_error(path + ": not as PyTorch 2.13 writes it: " + error.what());
} catch (const std::out_of_range&) {
  throw std::runtime_error(path + ": a part of a .pt2 file is missing");
}
