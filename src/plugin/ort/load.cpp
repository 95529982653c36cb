#include "plugin/ort/load.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <set>

#include "base/dynamic_library.h"
#include "base/error.h"
#include "base/foreign_call.h"
#include "base/hash.h"
#include "base/mapped_file.h"
#include "camshaft/camshaft_plugin.h"
#include "onnx/claimed_operators.h"
#include "plugin/ort/api.h"
#include "plugin/ort/custom_operator.h"

namespace camshaft::ort {

namespace {

[[noreturn]] void refuse_library(const std::string& path, const std::string& what) {
  throw Error(ErrorCode::invalid_argument, fmt::format("'{}' cannot be loaded as custom operators: {}", path, what));
}

/// What the library registers. Throws Error that says what is wrong.
std::vector<Domain> registered_by(Entry entry) {
  // Libraries may keep the pointer as long as the process runs.
  auto& options = *new SessionOptions;
  std::string message;
  take_complaint();
  try {
    message = take(foreign_call([&] { return entry(&options, &api_base()); }));
  } catch (const ForeignException& e) {
    message = fmt::format("{} threw {}", entry_name,
                          e.is_standard ? "an exception: " + e.message : "something that is no std::exception");
  }
  const std::string complaint = take_complaint();
  if (!complaint.empty()) message = complaint;
  if (!message.empty()) throw Error(ErrorCode::invalid_argument, message);
  return options.domains;
}

/// The operators, by domain and name. Throws Error that says what is wrong.
std::vector<std::shared_ptr<const PluginOperator>> operators_of(Entry entry, const std::string& file,
                                                                const std::string& hash) {
  std::map<std::pair<std::string, std::string>, std::vector<const CustomOp*>> ops;
  for (const Domain& domain : registered_by(entry))
    for (const CustomOp* op : *domain.ops)
      ops[{domain.name == "ai.onnx" ? "" : domain.name, name_of(*op)}].push_back(op);
  if (ops.empty()) throw Error(ErrorCode::invalid_argument, fmt::format("its {} registers no operators", entry_name));
  std::vector<std::shared_ptr<const PluginOperator>> made;
  for (auto& [key, tables] : ops) {
    onnx::check_free_for_plugin(key.first, key.second, file);
    made.push_back(make_custom_operator(key.first, std::move(tables), file, hash));
  }
  return made;
}

}  // namespace

void load_custom_ops(const std::string& library) {
  static auto* const mutex = new std::mutex;
  static auto* const loaded = new std::set<std::string>;  // hashes
  static auto* const opened_before = new std::set<std::string>;
  const std::lock_guard lock(*mutex);
  const auto file = MappedFile::open(library);
  const std::string hash = to_hex(hash64(file->bytes()));
  if (loaded->contains(hash)) return;
  const std::string path = std::filesystem::absolute(library).string();
  // Such a library keeps one table of functions to call, for all of the process.
  if (!opened_before->contains(path) && DynamicLibrary::loaded({path}))
    refuse_library(library,
                   "this process has loaded it already, as for ONNX Runtime, whose functions it would no longer call: "
                   "take another process, or a copy of the file");
  DynamicLibrary opened({path}, {});
  if (!opened) refuse_library(library, opened.why());
  opened_before->insert(path);
  // What it registers is used as long as the process runs.
  const auto& kept = *new DynamicLibrary(std::move(opened));
  const auto entry = reinterpret_cast<Entry>(kept.symbol(entry_name));
  if (!entry)
    refuse_library(library,
                   fmt::format("the library exports no function {}{}", entry_name,
                               kept.symbol(CAMSHAFT_PLUGIN_ENTRY) ? "; it is a plugin: --plugin loads it" : ""));
  try {
    for (auto& op : operators_of(entry, std::filesystem::path(library).filename().string(), hash))
      add_plugin(std::move(op));
  } catch (const Error& e) {
    refuse_library(library, e.what());
  }
  loaded->insert(hash);
}

}  // namespace camshaft::ort
