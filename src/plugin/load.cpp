#include "plugin/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/dynamic_library.h"
#include "base/error.h"
#include "base/foreign_call.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mapped_file.h"
#include "onnx/claimed_operators.h"
#include "onnx/proto_reader.h"
#include "plugin/c_operator.h"
#include "plugin/ort/abi.h"

namespace camshaft::plugin {

namespace {

// Checks all operators before it keeps any.
class Batch {
 public:
  void take(const camshaft_plugin_operator& given, const std::string& file, const std::string& hash) {
    std::string expression;
    auto made = make_operator(given, file, hash, expression);
    if (made) {
      onnx::check_free_for_plugin(made->domain, made->name, file);
      check_new(made->full_name(), file);
      plugins_.push_back(std::move(made));
    } else {
      expressions_.push_back(onnx::parse_scalar_expression(expression));
      check_new(expressions_.back().domain + "::" + expressions_.back().name, file);
    }
  }
  bool has(const PluginOperator& known) const { return names_.contains(known.full_name()); }
  void keep() {
    for (auto& plugin : plugins_) add_plugin(std::move(plugin));
    for (auto& expression : expressions_) onnx::add_expression(std::move(expression));
  }

 private:
  void check_new(const std::string& name, const std::string& file) {
    if (!names_.insert(name).second)
      throw Error(ErrorCode::invalid_argument, fmt::format("the plugin {} has the operator {} twice", file, name));
  }

  std::set<std::string> names_;
  std::vector<std::shared_ptr<const PluginOperator>> plugins_;
  std::vector<onnx::ScalarExpression> expressions_;
};

[[noreturn]] void refuse(const std::string& source, const std::string& what) {
  throw Error(ErrorCode::invalid_argument, fmt::format("'{}' is no plugin: {}", source, what));
}

/// The way out for a library that needs TensorRT's own ones; empty for others.
std::string if_of_tensorrt(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto has = [&](std::string_view name) { return text.find(name) != std::string_view::npos; };
  if (has(CAMSHAFT_PLUGIN_ENTRY))
    return has("libnvinfer")
               ? "; leave TensorRT's libraries out of its link (-lnvinfer): Camshaft's NvInfer.h needs none"
               : "";
  if (!has("libnvinfer") && !has("getPluginRegistry")) return "";
  return "; it was compiled for TensorRT's own libraries: compile its source with Camshaft's NvInfer.h "
         "(docs/plugins.md)";
}

void load_library(const std::string& path, std::span<const std::byte> bytes) {
  const std::string absolute = std::filesystem::absolute(path).string();
  DynamicLibrary opened({absolute}, {});
  if (!opened) refuse(path, opened.why() + if_of_tensorrt(bytes));
  // What it gives is used as long as the process runs.
  const auto& library = *new DynamicLibrary(std::move(opened));
  const auto entry = reinterpret_cast<camshaft_plugin_entry_function>(library.symbol(CAMSHAFT_PLUGIN_ENTRY));
  if (!entry)
    refuse(path, fmt::format("the library exports no function {} ({})", CAMSHAFT_PLUGIN_ENTRY,
                             library.symbol(ort::entry_name)
                                 ? "it has custom operators of ONNX Runtime: --ort-custom-ops loads those"
                                 : "CAMSHAFT_PLUGIN(…) of camshaft/plugin.hpp makes it") +
                     if_of_tensorrt(bytes));
  const camshaft_plugin_library* given = nullptr;
  try {
    given = foreign_call([&] { return entry(CAMSHAFT_PLUGIN_ABI); });
  } catch (const ForeignException& e) {
    refuse(path, fmt::format("its function {} threw an exception{}", CAMSHAFT_PLUGIN_ENTRY,
                             e.is_standard ? ": " + e.message : ""));
  }
  if (!given) refuse(path, fmt::format("it gives nothing for version {} of the interface", CAMSHAFT_PLUGIN_ABI));
  camshaft_plugin_library table = {};
  if (given->size < offsetof(camshaft_plugin_library, operator_count)) refuse(path, "what it gives is cut short");
  std::memcpy(&table, given, std::min(given->size, sizeof table));
  if (table.abi != CAMSHAFT_PLUGIN_ABI)
    refuse(path, fmt::format("it is for version {} of the interface, and this is version {}: compile it with the "
                             "header camshaft/camshaft_plugin.h of this Camshaft",
                             table.abi, CAMSHAFT_PLUGIN_ABI));
  const bool may_change = library.symbol(CAMSHAFT_PLUGIN_MAY_CHANGE) != nullptr;
  if (table.operator_count > 0 ? !table.operators : !may_change) refuse(path, "it has no operators");
  const std::string file = std::filesystem::path(path).filename().string(), hash = to_hex(hash64(bytes));
  Batch batch;
  for (size_t i = 0; i < table.operator_count; ++i) {
    if (!table.operators[i]) refuse(path, fmt::format("its operator {} is missing", i));
    batch.take(*table.operators[i], file, hash);
  }
  bool is_known = false;
  if (may_change)
    for (const auto& known : loaded_plugins())
      if (known->file == file && known->hash == hash && !batch.has(*known))
        is_known |= withdraw_plugin(known->full_name());
  if (table.operator_count == 0 && !is_known)
    log_warning(fmt::format(
        "'{}' has no creators yet: call its function that registers them, and load it again then (TensorRT's "
        "getCreators(), getPluginCreators(), initLibNvInferPlugins() and REGISTER_TENSORRT_PLUGIN need none of this)",
        path));
  batch.keep();
}

bool is_library(std::span<const std::byte> bytes) {
  return bytes.size() > 4 && std::memcmp(bytes.data(), "\177ELF", 4) == 0;
}

}  // namespace

void load(const std::string& source) {
  std::error_code ignored;
  // What is written like an operator and has a mistake is no file that is missing.
  const bool is_file_name = source.ends_with(".so") || source.ends_with(".onnx");
  if (!is_file_name && source.find_first_of("(=") != std::string::npos && !std::filesystem::exists(source, ignored))
    return onnx::add_expression(onnx::parse_scalar_expression(source));
  const auto file = MappedFile::open(source);
  if (is_library(file->bytes())) return load_library(source, file->bytes());
  if (!source.ends_with(".onnx"))
    refuse(source, "neither a shared library nor an ONNX model (.onnx), nor an operator's text, 'my::Op(x) = x'");
  onnx::add_functions(onnx::read_model(source), to_hex(hash64(file->bytes())));
}

void add(const camshaft_plugin_operator& given, const std::string& source, const std::string& hash) {
  Batch batch;
  batch.take(given, source, hash);
  batch.keep();
}

}  // namespace camshaft::plugin
