// What a plugin behind the C interface sees of a run.
#pragma once

#include <array>
#include <mutex>
#include <string>
#include <vector>

#include "camshaft/camshaft_plugin.h"
#include "ir/plugin.h"

namespace camshaft::plugin {

/// The C form of a run, for the time of one call. Allocates nothing for operators of up to 16 operands.
class RunView {
 public:
  explicit RunView(const PluginCall& call);
  RunView(const RunView&) = delete;
  RunView& operator=(const RunView&) = delete;
  const camshaft_plugin_run* get() const { return &c_.run; }
  /// What the plugin said of its failure; empty: nothing.
  const std::string& message() const { return message_; }
  bool has_failed() const { return !message_.empty(); }

 private:
  struct C {
    camshaft_plugin_run run = {};
    RunView* view = nullptr;
  } c_;
  camshaft_plugin_cuda cuda_ = {};
  static RunView& of(const camshaft_plugin_run* run) { return *reinterpret_cast<const C*>(run)->view; }
  void note(const char* message);
  void parallel_for(int64_t count, int64_t grain, camshaft_plugin_body body, void* user);
  void* resize(size_t output, size_t rank, const int64_t* dims);

  static constexpr size_t most_inline = 16;
  const PluginCall& call_;
  std::mutex mutex_;
  std::string message_;
  std::array<camshaft_plugin_tensor, most_inline> some_;
  std::array<const camshaft_plugin_tensor*, most_inline> some_pointers_;
  std::vector<camshaft_plugin_tensor> many_;
  std::vector<const camshaft_plugin_tensor*> many_pointers_;
};

}  // namespace camshaft::plugin
