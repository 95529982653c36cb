// An operator that a plugin might bring, for tests that need one: test::Doubled, twice its operand.
#pragma once

#include <memory>
#include <vector>

#include "base/error.h"
#include "ir/plugin.h"

namespace camshaft {

class DoubledInstance final : public PluginInstance {
 public:
  std::vector<TensorType> infer(const InferContext& context) const override {
    if (context.dtype(0) != DType::f32) throw Error(ErrorCode::invalid_argument, "Doubled takes f32");
    return {context.type(0)};
  }
  void run(const PluginCall& call) const override {
    const auto* x = reinterpret_cast<const float*>(call.inputs[0].data);
    auto* y = reinterpret_cast<float*>(call.outputs[0].data);
    for (int64_t i = 0; i < element_count(call.inputs[0].dims); ++i) y[i] = 2 * x[i];
  }
};

class DoubledOperator final : public PluginOperator {
 public:
  DoubledOperator() {
    domain = "test";
    name = "Doubled";
    version = "1";
    file = "tests";
    hash = "0";
  }
  std::shared_ptr<const PluginInstance> create(const PluginNode&) const override {
    return std::make_shared<const DoubledInstance>();
  }
};

/// Loads it; any number of times.
inline void add_test_plugin() {
  add_plugin(std::make_shared<const DoubledOperator>());
}

}  // namespace camshaft
