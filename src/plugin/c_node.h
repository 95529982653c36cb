// What a plugin behind the C interface sees of a node.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "camshaft/camshaft_plugin.h"
#include "ir/plugin.h"

namespace camshaft::plugin {

/// The C form of a node's attributes, for the time of one call.
class NodeView {
 public:
  explicit NodeView(const PluginNode& node);
  NodeView(const NodeView&) = delete;
  NodeView& operator=(const NodeView&) = delete;
  const camshaft_plugin_node* get() const { return &c_.node; }
  /// What the plugin said of its failure, or what was wrong with what it asked; empty: nothing.
  const std::string& message() const { return message_; }

 private:
  // First, so that a pointer to it is one to all.
  struct C {
    camshaft_plugin_node node = {};
    NodeView* view = nullptr;
  } c_;
  static NodeView& of(const camshaft_plugin_node* node) { return *reinterpret_cast<const C*>(node)->view; }
  const PluginAttribute* find(const char* name) const;
  template <class T>
  const std::vector<T>* list(const char* name, const char* kind);
  void note(std::string message) {
    if (message_.empty()) message_ = std::move(message);
  }

  const PluginNode& node_;
  std::string message_;
  std::deque<camshaft_plugin_tensor> tensors_;
};

}  // namespace camshaft::plugin
