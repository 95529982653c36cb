#include "plugin/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
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

struct Brought {
  std::shared_ptr<const PluginOperator> plugin;
  const void* user = nullptr;  // its table's: what the operator is in its library
};

// Checks all operators before it keeps any.
class Batch {
 public:
  void take(const camshaft_plugin_operator& given, const std::string& file, const std::string& hash) {
    std::string expression;
    auto made = make_operator(given, file, hash, expression);
    if (made) {
      onnx::check_free_for_plugin(made->domain, made->name, file);
      check_new(made->full_name(), file);
      const bool has_user = given.size >= offsetof(camshaft_plugin_operator, create);
      plugins_.push_back({std::move(made), has_user ? given.user : nullptr});
    } else {
      expressions_.push_back(onnx::parse_scalar_expression(expression));
      check_new(expressions_.back().domain + "::" + expressions_.back().name, file);
    }
  }
  /// The same object of its library, not another one that has its name now.
  bool has(const Brought& known) const {
    return std::ranges::any_of(plugins_, [&](const Brought& given) {
      return given.plugin->full_name() == known.plugin->full_name() && given.plugin->hash == known.plugin->hash &&
             given.user == known.user;
    });
  }
  /// And what of it models mean now.
  void keep(std::map<std::string, Brought>& brought) {
    for (const Brought& given : plugins_) {
      add_plugin(given.plugin);
      const std::string name = given.plugin->full_name();
      const auto current = find_plugin(name);
      const auto known = brought.find(name);
      // Else it is that of a copy of the library, which has the same code.
      if (current == given.plugin || (known != brought.end() && current == known->second.plugin))
        brought[name] = {current, given.user};
    }
    for (auto& expression : expressions_) onnx::add_expression(std::move(expression));
  }

 private:
  void check_new(const std::string& name, const std::string& file) {
    if (!names_.insert(name).second)
      throw Error(ErrorCode::invalid_argument, fmt::format("the plugin {} has the operator {} twice", file, name));
  }

  std::set<std::string> names_;
  std::vector<Brought> plugins_;
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

struct Opened {
  DynamicLibrary library;
  std::string hash;  // of the file that the code in memory is of, whatever stands in its place now
  std::mutex mutex;
  bool had_operators = false;
  std::map<std::string, Brought> brought;  // by full name, what models mean
};

/// The one with that function: what it gives is used as long as the process runs.
Opened& opened_once(camshaft_plugin_entry_function entry, const DynamicLibrary& library,
                    std::span<const std::byte> bytes) {
  static std::mutex mutex;
  static auto& all = *new std::map<camshaft_plugin_entry_function, Opened>;
  const std::lock_guard lock(mutex);
  const auto [it, is_new] = all.try_emplace(entry);
  if (is_new) {
    it->second.library = library;
    it->second.hash = to_hex(hash64(bytes));
  }
  return it->second;
}

void load_library(const std::string& path, std::span<const std::byte> bytes) {
  const std::string absolute = std::filesystem::absolute(path).string();
  const DynamicLibrary library({absolute}, {});
  if (!library) refuse(path, library.why() + if_of_tensorrt(bytes));
  const auto entry = reinterpret_cast<camshaft_plugin_entry_function>(library.symbol(CAMSHAFT_PLUGIN_ENTRY));
  if (!entry)
    refuse(path, fmt::format("the library exports no function {} ({})", CAMSHAFT_PLUGIN_ENTRY,
                             library.symbol(ort::entry_name)
                                 ? "it has custom operators of ONNX Runtime: --ort-custom-ops loads those"
                                 : "CAMSHAFT_PLUGIN(…) of camshaft/plugin.hpp makes it") +
                     if_of_tensorrt(bytes));
  Opened& opened = opened_once(entry, library, bytes);
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
  const std::string file = std::filesystem::path(path).filename().string();
  Batch batch;
  for (size_t i = 0; i < table.operator_count; ++i) {
    if (!table.operators[i]) refuse(path, fmt::format("its operator {} is missing", i));
    batch.take(*table.operators[i], file, opened.hash);
  }
  const std::lock_guard lock(opened.mutex);
  opened.had_operators |= table.operator_count > 0;
  if (may_change)
    std::erase_if(opened.brought, [&](const auto& item) {
      const auto& [name, known] = item;
      if (batch.has(known)) return false;
      if (find_plugin(name) == known.plugin) withdraw_plugin(name);
      return true;
    });
  if (!opened.had_operators)
    log_warning(fmt::format(
        "'{}' has no creators yet: call its function that registers them, and load it again then (TensorRT's "
        "getCreators(), getPluginCreators(), initLibNvInferPlugins() and REGISTER_TENSORRT_PLUGIN need none of this)",
        path));
  batch.keep(opened.brought);
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
  std::map<std::string, Brought> of_program;
  batch.keep(of_program);
}

}  // namespace camshaft::plugin
