// Engines and tensors for tests of the runtime.
#pragma once

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/thread_pool.h"
#include "builder/compile_graph.h"
#include "ir/ops/operators.h"
#include "ir/text.h"
#include "reference/evaluate.h"
#include "runtime/backends.h"
#include "runtime/context.h"
#include "runtime/engine.h"
#include "runtime/tensor_view.h"

namespace camshaft {

/// The device under test: the one that the environment's CAMSHAFT_TEST_DEVICE names, or the CPU.
inline std::shared_ptr<const Backend> test_backend() {
  const char* kind = std::getenv("CAMSHAFT_TEST_DEVICE");
  return find_backend(kind ? kind : "cpu");
}

inline Engine engine_from(std::string_view text, const CompileOptions& options = {}) {
  return compile_graph(parse_graph(text, operators()), test_backend(), options);
}

/// A copy of an output.
inline Tensor output_of(const Context& context, const std::string& name) {
  return copy_of(context.output(name));
}

inline void set_inputs(Context& context, const Engine& engine, const std::vector<Tensor>& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) context.set_input(engine.inputs()[i].name, view_of(inputs[i]));
}

inline std::vector<Tensor> run_engine(const Engine& engine, const std::vector<Tensor>& inputs, int threads = 2) {
  Context context = engine.create_context({threads, make_workers(threads)});
  set_inputs(context, engine, inputs);
  context.run();
  std::vector<Tensor> outputs;
  for (const TensorInfo& info : engine.outputs()) outputs.push_back(output_of(context, info.name));
  return outputs;
}

/// Convolution, matmul, pointwise, softmax, layer norm, moves: most of what a model has, with a dynamic batch and size.
constexpr std::string_view small_model = R"(graph "small" (%x: f32[batch, 6, width, 4]) {
  const %w: f32[8, 4, 3, 3] = 0.01
  const %b: f32[8] = [1, 2, 3, 4, 5, 6, 7, 8]
  const %zero: f32[] = 0
  const %m: f32[8, 5] = [0.1, 0.2, -0.3, 0.4, 0.5, 1, -1, 1, -1, 1, 0, 0, 0.25, 0, 0, 1, 2, 3, 4, 5,
                         0.1, 0.2, -0.3, 0.4, 0.5, 1, -1, 1, -1, 1, 0, 0, 0.25, 0, 0, 1, 2, 3, 4, 5]
  %c = conv {strides=[1, 1], pads=shape(1, 1, 1, 1), dilations=[1, 1], channels_last=true} (%x, %w, %b) from "Conv_0"
  %r = pointwise {function=max} (%c, %zero) from "Relu_1"
  %p = reduce {kind=mean, axes=[1, 2], keep_dims=false} (%r) from "Pool_2"
  %n = layer_norm {axis=1} (%p) from "Norm_3"
  %y = matmul (%n, %m) from "MatMul_4"
  %s = softmax {axis=1} (%y) from "Softmax_5"
  return "probabilities" = %s, "logits" = %y
})";

}  // namespace camshaft
