// An engine's tensors as its model has them.
#include "builder/engine_tensors.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/temporary_folder.h"
#include "builder/builder.h"
#include "onnx/importer.h"
#include "onnx/model_writer.h"
#include "optimize/precision/widen_narrow_floats.h"

namespace camshaft::engine_tensors_test {
namespace {

using namespace onnx::testing;  // NOLINT: the writers

// An image of as many channels as rows and columns may have been stored either way round. Elements of i4 share bytes,
// which were taken for one each: those behind the first half were written beyond the tensor.
TEST(EngineTensors, PackedElementsAreTurnedRound) {
  constexpr int64_t images = 3, size = 33;
  const Dims dims{images, size, size, size};
  const TemporaryFolder folder;
  const std::string path = folder.file("packed.onnx");
  const GraphWriter graph = GraphWriter()
                                .input("x", DType::f32, {images, size, size, size})
                                .output("y", DType::i4, {images, size, size, size})
                                .node("Cast", {"x"}, {"y"}, {attr("to", 22)});
  std::ofstream(path, std::ios::binary) << ModelWriter().opset(23).graph(graph).bytes();
  BuildOptions options;
  options.verify = false;
  const Engine engine = Builder(options).build(path);

  Tensor x(DType::f32, dims);
  std::vector<uint8_t> turned(static_cast<size_t>((x.size() + 1) / 2));
  for (int64_t i = 0; i < x.size(); ++i) {
    const int64_t n = i / (size * size * size), pixel = i / size % (size * size), channel = i % size;
    const int64_t number = (7 * n + 3 * pixel + 5 * channel + pixel * channel) % 16 - 8;
    x.as_mutable<float>()[i] = static_cast<float>(number);
    const int64_t to = (n * size + channel) * size * size + pixel;
    turned[static_cast<size_t>(to / 2)] |= static_cast<uint8_t>((number & 15) << (to % 2 * 4));
  }
  ThreadPool pool(1);
  EngineTensors tensors(onnx::import_model(path, {}).graph, engine, {x}, pool, {});
  const Tensor expected = Tensor::of<uint8_t>(DType::i4, dims, turned);
  EXPECT_TRUE(tensors.take("y", expected).tensor == expected);
}

// On a CPU f16 is computed in f32, and what f16 cannot hold becomes infinite where it is stored: what stores it is the
// model's conversion, and was taken for the number before that.
TEST(EngineTensors, WhatTheNarrowTypeCannotHoldIsInfiniteInTheModel) {
  const TemporaryFolder folder;
  const std::string path = folder.file("large.onnx");
  const GraphWriter graph =
      GraphWriter().input("x", DType::f16, {4}).output("y", DType::f16, {4}).node("Reciprocal", {"x"}, {"y"});
  std::ofstream(path, std::ios::binary) << ModelWriter().opset(17).graph(graph).bytes();
  BuildOptions options;
  options.verify = false;
  const Engine engine = Builder(options).build(path);
  Graph model = onnx::import_model(path, {}).graph;
  ThreadPool pool(1);
  widen_narrow_floats(model, PassContext{.pool = pool});
  const Tensor x = Tensor::of<uint16_t>(DType::f16, {4}, {0x0001, 0x8010, 0x3c00, 0x4000});  // 2^-24, -2^-20, 1, 2
  const Tensor y = Tensor::of<uint16_t>(DType::f16, {4}, {0x7c00, 0xfc00, 0x3c00, 0x3800});
  EngineTensors tensors(model, engine, {x}, pool, {});
  EXPECT_TRUE(tensors.take(model.value(model.outputs[0]).name, y).tensor == y);
}

}  // namespace
}  // namespace camshaft::engine_tensors_test
