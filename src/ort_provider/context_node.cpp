#include "ort_provider/context_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <span>

#include "base/mapped_file.h"
#include "camshaft/camshaft.h"
#include "ort_provider/graph_reader.h"
#include "runtime/backends.h"
#include "runtime/engine_impl.h"

namespace camshaft::ort_provider {

namespace {

using ort::slot;

constexpr const char* node_type = "EPContext";
constexpr const char* node_domain = "com.microsoft";

/// Attributes of a node that is being made, freed at the end: the node has copies.
class Attributes {
 public:
  explicit Attributes(const Host& host) : host_(host) {}
  ~Attributes() {
    for (OrtOpAttr* attribute : list_) host_.call<void>(slot("ReleaseOpAttr"), attribute);
  }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;

  void add(const char* name, std::span<const std::byte> bytes) {
    if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()))
      throw Error(ErrorCode::unsupported,
                  "an engine of more than 2 GiB cannot be embedded into a model: leave out "
                  "ep.context_embed_mode");
    add(name, bytes.data(), static_cast<int>(bytes.size()), ort::string_attribute);
  }
  void add(const char* name, const std::string& text) { add(name, std::as_bytes(std::span(text))); }
  void add(const char* name, int64_t value) { add(name, &value, 1, ort::int_attribute); }

  std::vector<OrtOpAttr*>& list() { return list_; }

 private:
  void add(const char* name, const void* data, int length, ort::AttributeKind kind) {
    list_.push_back(host_.get<OrtOpAttr*>(slot("CreateOpAttr"), name, data, length, kind));
  }

  const Host& host_;
  std::vector<OrtOpAttr*> list_;
};

/// Where ONNX Runtime writes the model with context nodes; empty: into memory.
std::filesystem::path path_of_made_model(const ProviderOptions& options, const std::string& model_path) {
  if (!options.context_path.empty()) return options.context_path;
  if (model_path.empty()) return {};
  const std::filesystem::path path = model_path;
  return path.parent_path() / (path.stem().string() + "_ctx.onnx");
}

/// As a name of a file.
std::string file_name_of(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '/' || c == '\\' || c == ':'; }, '_');
  return name;
}

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> out;
  for (const std::string& text : texts) out.push_back(text.c_str());
  return out;
}

std::vector<std::string> names_of(const std::vector<TensorInfo>& infos) {
  std::vector<std::string> names;
  for (const TensorInfo& info : infos) names.push_back(info.name);
  return names;
}

}  // namespace

std::string compatibility_text() {
  const DeviceInfo& device = find_backend("cpu")->device();
  return fmt::format("camshaft {};{};{}", camshaft_version(), device.kind, device.isa);
}

bool is_context_node(const Host& host, const OrtNode* node) {
  return std::string(host.get<const char*>(slot("Node_GetOperatorType"), node)) == node_type &&
         std::string(host.get<const char*>(slot("Node_GetDomain"), node)) == node_domain &&
         text_attribute(host, node, "source") == provider_name;
}

OrtNode* make_context_node(const Host& host, const Engine& engine, const ProviderOptions& options,
                           const std::string& name, const std::string& model_path) {
  const std::filesystem::path made = path_of_made_model(options, model_path);
  const bool embeds = options.embeds_context || made.empty();
  Attributes attributes(host);
  attributes.add("main_context", 1);
  attributes.add("embed_mode", embeds ? 1 : 0);
  if (embeds) {
    attributes.add("ep_cache_context", engine_bytes(engine));
  } else {
    const std::string file = file_name_of(fmt::format("{}_{}.engine", made.stem().string(), name));
    engine.save((made.parent_path() / file).string());
    attributes.add("ep_cache_context", file);
  }
  attributes.add("source", std::string(provider_name));
  attributes.add("ep_sdk_version", std::string(camshaft_version()));
  attributes.add("hardware_architecture", find_backend(options.settings.build.device)->device().isa);
  attributes.add("partition_name", name);
  const std::vector<std::string> inputs = names_of(engine.inputs()), outputs = names_of(engine.outputs());
  OrtNode* node = nullptr;
  host.check(host.editor().create_node(node_type, node_domain, name.c_str(), pointers(inputs).data(), inputs.size(),
                                       pointers(outputs).data(), outputs.size(), attributes.list().data(),
                                       attributes.list().size(), &node),
             slot("GetModelEditorApi"));
  return node;
}

Engine load_context_node(const Host& host, const OrtNode* node, const std::string& device, const std::string& folder) {
  const LoadOptions options{.device = device == "cpu" ? "" : device};  // the default, with which GPUs' run on the first
  const std::string context = text_attribute(host, node, "ep_cache_context");
  if (integer_attribute(host, node, "embed_mode", 1) == 1)
    return load_engine(MappedFile::from_bytes(std::as_bytes(std::span(context)), "the model's EPContext node"),
                       options);
  const std::filesystem::path file = context;
  const bool leaves = std::find(file.begin(), file.end(), "..") != file.end();
  if (file.empty() || file.is_absolute() || leaves)
    throw Error(
        ErrorCode::invalid_model,
        fmt::format("the model's EPContext node names the file '{}': it must be in the model's folder", context));
  return Engine::load((std::filesystem::path(folder) / file).string(), options);
}

}  // namespace camshaft::ort_provider
