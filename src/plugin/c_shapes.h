// What a shape rule behind the C interface sees and gives.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "camshaft/camshaft_plugin.h"
#include "ir/op.h"

namespace camshaft::plugin {

/// The C form of the operands' types and of the expressions that are made of them, for the time of one call.
class ShapesView {
 public:
  explicit ShapesView(const InferContext& context);
  ShapesView(const ShapesView&) = delete;
  ShapesView& operator=(const ShapesView&) = delete;
  camshaft_plugin_shapes* get() { return &c_.shapes; }
  /// What the plugin said of its failure, or what was wrong with what it gave; empty: nothing.
  const std::string& message() const { return message_; }
  /// Throws Error(invalid_argument), which begins with `who`, where an output was not set.
  std::vector<TensorType> results(const std::string& who) const;
  static const Dim& dim_of(const camshaft_plugin_dim* dim) { return *reinterpret_cast<const Dim*>(dim); }

 private:
  struct C {
    camshaft_plugin_shapes shapes = {};
    ShapesView* view = nullptr;
  } c_;
  static ShapesView& of(camshaft_plugin_shapes* shapes) { return *reinterpret_cast<C*>(shapes)->view; }
  const camshaft_plugin_dim* keep(Dim dim);
  /// Null, with the message kept, for what `make` throws.
  template <class Make>
  const camshaft_plugin_dim* made(const Make& make);
  void note(std::string message) {
    if (message_.empty()) message_ = std::move(message);
  }
  bool has(size_t input) const { return context_.has(input); }
  int32_t set_output(size_t output, camshaft_dtype dtype, size_t rank, const camshaft_plugin_dim* const* dims);

  const InferContext& context_;
  std::string message_;
  std::deque<Dim> dims_;
  std::deque<std::string> texts_;
  std::deque<std::vector<int64_t>> values_;
  std::vector<std::optional<TensorType>> results_;
};

}  // namespace camshaft::plugin
