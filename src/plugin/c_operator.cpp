#include "plugin/c_operator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/foreign_call.h"
#include "base/log.h"
#include "ir/plugin_detour.h"
#include "plugin/c_compile.h"
#include "plugin/c_node.h"
#include "plugin/c_run.h"
#include "plugin/c_shapes.h"
#include "plugin/running_calls.h"

namespace camshaft::plugin {

namespace {

/// Beyond this, sums of what layers need could overflow. No memory holds as much.
constexpr size_t most_workspace = size_t{1} << 50;
constexpr const char* cannot_count = "cannot say how many tactics it has";

/// Who speaks, and what went wrong.
[[noreturn]] void fail(const std::string& who, const char* doing, const std::string& message) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{} {}: {}", who, doing, message.empty() ? "it does not say why" : message));
}

/// Calls a function of the plugin, which must not throw, and may do it all the same.
template <class Call>
int32_t called(const std::string& who, const char* doing, const Call& call) {
  try {
    return foreign_call(call);
  } catch (const ForeignException& e) {
    fail(who, doing,
         e.is_standard ? fmt::format("it threw an exception through its C interface: {}", e.message)
                       : "it threw something through its C interface");
  }
}

/// The table, and who it is in messages.
struct Described {
  camshaft_plugin_operator table = {};
  std::string who;  ///< "the plugin example::Gelu (libgelu.so)"
};

class CInstance final : public PluginInstance {
 public:
  CInstance(std::shared_ptr<const Described> of, const PluginNode& node) : of_(std::move(of)), table_(of_->table) {
    instance_ = table_.user;
    if (table_.create) {
      NodeView view(node);
      void* made = nullptr;
      const int32_t status =
          called(of_->who, "cannot be created", [&] { return table_.create(table_.user, view.get(), &made); });
      instance_ = made;
      // A failure that was explained counts, whatever was returned.
      if (status != 0 || !view.message().empty()) {
        if (status == 0) destroy();
        fail(of_->who, "cannot be created", view.message());
      }
    }
    try {
      read_state();
    } catch (...) {
      destroy();
      throw;
    }
  }
  ~CInstance() override { destroy(); }
  CInstance(const CInstance&) = delete;
  CInstance& operator=(const CInstance&) = delete;

  std::vector<TensorType> infer(const InferContext& context) const override {
    ShapesView view(context);
    const int32_t status =
        called(of_->who, "refuses its operands", [&] { return table_.infer(instance_, view.get()); });
    if (status != 0 || !view.message().empty()) fail(of_->who, "refuses its operands", view.message());
    return view.results(of_->who);
  }

  std::string state() const override { return state_; }

  size_t tactics(const PluginCall& call) const override {
    if (!table_.count_tactics) return std::max<size_t>(1, table_.tactic_count);
    RunView view(call);
    size_t count = 0;
    called(of_->who, cannot_count, [&] {
      count = table_.count_tactics(instance_, view.get());
      return 0;
    });
    if (!view.message().empty()) fail(of_->who, cannot_count, view.message());
    if (count > most_tactics)
      fail(of_->who, cannot_count, fmt::format("{} are more than the {} that are possible", count, most_tactics));
    return std::max<size_t>(1, count);
  }

  bool supports(const PluginCall& call) const override {
    if (call.tactic >= tactics(call)) return false;
    if (!table_.supports) return true;
    RunView view(call);
    return called(of_->who, "cannot say what it supports", [&] { return table_.supports(instance_, view.get()); }) != 0;
  }
  double seconds(const PluginCall& call) const override {
    if (!table_.cost) return -1;
    RunView view(call);
    double seconds = -1;
    called(of_->who, "cannot say what it costs", [&] {
      seconds = table_.cost(instance_, view.get());
      return 0;
    });
    return seconds >= 0 && seconds < 1e9 ? seconds : -1;
  }
  size_t workspace_bytes(const PluginCall& call) const override {
    if (!table_.workspace) return 0;
    RunView view(call);
    size_t bytes = 0;
    called(of_->who, "cannot say what workspace it needs", [&] {
      bytes = table_.workspace(instance_, view.get());
      return 0;
    });
    if (!view.message().empty()) fail(of_->who, "cannot say what workspace it needs", view.message());
    if (bytes > most_workspace)
      fail(of_->who, "cannot have the workspace that it needs",
           fmt::format("{} bytes are more than there can be", bytes));
    return bytes;
  }
  bool has_reference() const override { return table_.reference != nullptr; }
  bool has_host() const override { return table_.enqueue != nullptr; }
  bool has_device() const override { return table_.enqueue_cuda != nullptr; }
  std::string device_text(size_t) const override { return table_.cuda_text ? table_.cuda_text : ""; }
  std::span<const std::byte> device_module(size_t) const override {
    return {static_cast<const std::byte*>(table_.cuda_module), table_.cuda_module ? table_.cuda_module_bytes : 0};
  }
  bool is_recorded() const override { return table_.cuda_is_not_recorded == 0; }
  int32_t compile(camshaft_plugin_kernels* kernels) const {
    return called(of_->who, "cannot be compiled ahead of time", [&] { return table_.compile(instance_, kernels); });
  }
  void run_on_device(const PluginCall& call) const override { run(table_.enqueue_cuda, "failed on the GPU", call); }
  void run(const PluginCall& call) const override {
    if (table_.enqueue) return run(table_.enqueue, "failed", call);
    if (table_.enqueue_cuda) return run_by_detour(*this, of_->who, call);
    fail(of_->who, "cannot run", "it has no function for the host, and compiled no kernels for this node");
  }
  void run_reference(const PluginCall& call) const override {
    if (!table_.reference) return run(call);
    run(table_.reference, "failed in its reference evaluation", call);
  }

 private:
  void read_state() {
    if (!table_.state) return;
    const void* bytes = nullptr;
    size_t size = 0;
    if (called(of_->who, "has no state", [&] { return table_.state(instance_, &bytes, &size); }) != 0)
      fail(of_->who, "has no state", "");
    state_.assign(static_cast<const char*>(bytes), size);
  }
  void destroy() noexcept {
    void* const gone = std::exchange(instance_, nullptr);
    if (!table_.create || !table_.destroy || !gone) return;
    try {
      called(of_->who, "failed while it was destroyed", [&] {
        table_.destroy(gone);
        return 0;
      });
    } catch (const Error& e) {  // nobody is there to take it
      log_warning(e.what());
    }
  }

  void run(int32_t (*function)(void*, const camshaft_plugin_run*), const char* failed, const PluginCall& call) const {
    RunView view(call);
    const RunningCall running(of_->who);
    const int32_t status = called(of_->who, failed, [&] { return function(instance_, view.get()); });
    if (call.cancellation) call.cancellation->check("running a plugin");
    if (status != 0 || view.has_failed()) fail(of_->who, failed, view.message());
  }

  std::shared_ptr<const Described> of_;
  const camshaft_plugin_operator& table_;
  void* instance_ = nullptr;
  std::string state_;
};

class COperator final : public PluginOperator, public PluginNoteTaker {
 public:
  explicit COperator(std::shared_ptr<const Described> of) : of_(std::move(of)) {}
  std::shared_ptr<const PluginInstance> create(const PluginNode& node) const override {
    return std::make_shared<const CInstance>(of_, node);
  }
  /// The kernels that are compiled ahead of time, if it has any.
  std::vector<PluginAttribute> notes(const PluginModelNode& node) const override {
    if (!of_->table.compile) return {};
    const CInstance instance(of_, {{node.attributes.begin(), node.attributes.end()}, nullptr});
    const bool has_body = of_->table.enqueue || of_->table.enqueue_cuda || of_->table.reference;
    const CompiledPlugin made =
        compile_ahead(of_->who, instance, node, has_body,
                      [&](camshaft_plugin_kernels* kernels) { return instance.compile(kernels); });
    return made.tactics.empty() ? std::vector<PluginAttribute>() : encode(made);
  }

 private:
  std::shared_ptr<const Described> of_;
};

bool is_word(const char* text, bool may_be_empty) {
  if (!text) return false;
  const std::string_view word(text);
  if (word.empty()) return may_be_empty;
  return word.size() < 256 && word.find_first_of(":\n\r\t \"'") == std::string_view::npos;
}

}  // namespace

std::shared_ptr<const PluginOperator> make_operator(const camshaft_plugin_operator& given, const std::string& file,
                                                    const std::string& hash, std::string& expression) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::invalid_argument, fmt::format("{} is no plugin for this version: {}", file, what));
  };
  // Up to the name; without it there is nothing to say.
  constexpr size_t least = offsetof(camshaft_plugin_operator, user);
  if (given.size < least || given.size > 1 << 16) refuse(fmt::format("an operator's table has {} bytes", given.size));
  auto described = std::make_shared<Described>();
  camshaft_plugin_operator& table = described->table;
  std::memcpy(&table, &given, std::min(given.size, sizeof table));
  if (!is_word(table.name, false)) refuse("an operator has no name, or one with blanks or colons");
  if (!table.domain) table.domain = "";
  if (!is_word(table.domain, true)) refuse(fmt::format("the domain of {} has blanks or colons", table.name));
  if (!table.version) refuse(fmt::format("its operator {} has no version", table.name));
  if (table.expression) {
    expression = fmt::format("{}{}{}{}", table.domain, *table.domain ? "::" : "", table.name, table.expression);
    return nullptr;
  }
  const bool has_body = table.enqueue || table.enqueue_cuda || table.compile;
  for (const auto& [is_there, name] : {std::pair(table.infer != nullptr, "shape rule (infer)"),
                                       std::pair(has_body, "function that runs it (enqueue, enqueue_cuda or compile)")})
    if (!is_there) refuse(fmt::format("its operator {} has no {}", table.name, name));
  if (table.cuda_text && table.cuda_module)
    refuse(fmt::format("its operator {} has kernels as text and as a module, where one is possible", table.name));
  if (table.cuda_module && table.cuda_module_bytes == 0)
    refuse(fmt::format("the cuda_module of its operator {} has no bytes", table.name));
  if (table.tactic_count > most_tactics)
    refuse(
        fmt::format("its operator {} has {} tactics; {} are possible", table.name, table.tactic_count, most_tactics));
  auto made = std::make_shared<COperator>(described);
  made->domain = table.domain;
  made->name = table.name;
  made->version = table.version;
  made->file = file;
  made->hash = table.variant ? fmt::format("{}.{}", hash, table.variant) : hash;
  if (table.types) made->types.assign(table.types, table.types + table.type_count);
  const auto layouts_of = [&](const int32_t* layouts, size_t count, const char* what) {
    std::vector<PluginLayout> list;
    for (size_t i = 0; layouts && i < count; ++i) {
      if (layouts[i] != CAMSHAFT_PLUGIN_CHANNELS_FIRST && layouts[i] != CAMSHAFT_PLUGIN_CHANNELS_LAST)
        refuse(
            fmt::format("its operator {} has {} as the layout of {} {}, where 0 (channels first) and 1 (channels "
                        "last) are known",
                        table.name, layouts[i], what, i));
      list.push_back(layouts[i] == CAMSHAFT_PLUGIN_CHANNELS_LAST ? PluginLayout::channels_last
                                                                 : PluginLayout::channels_first);
    }
    return list;
  };
  made->input_layouts = layouts_of(table.input_layouts, table.input_layout_count, "operand");
  made->output_layouts = layouts_of(table.output_layouts, table.output_layout_count, "result");
  described->who = fmt::format("the plugin {} ({})", made->full_name(), file);
  return made;
}

}  // namespace camshaft::plugin
