#include "optimize/precision/weight_only_products.h"

#include "ir/ops/contract.h"
#include "ir/ops/quantize.h"
#include "optimize/pass_test.h"
#include "reference/evaluate.h"
#include "test_random.h"

namespace camshaft::weight_only_products_test {
namespace {

TEST(WeightOnlyProducts, BlocksAlongWhatIsSummedOver) {
  expect_pass(weight_only_products, R"(const %w: u4[2, 32] = 9
    const %s: f32[2, 2] = [1, 2, 3, 4]
    const %z: u4[] = 8
    %wf = dequantize {axis=1, block=16} (%w, %s, %z)
    %y = matmul {transpose_b=true} (%x, %wf)
    return "y" = %y)",
              R"(const %w: u4[2, 32] = 9
    const %s: f32[2, 2] = [1, 2, 3, 4]
    const %z: u4[] = 8
    %y = weight_only_matmul {block=16, transposed=true} (%x, %w, %s, %z)
    return "y" = %y)",
              "%x: f32[n, 32]");
}

TEST(WeightOnlyProducts, OfRowsThatAreRoundedByBlocks) {
  expect_pass(weight_only_products, R"(const %w: u4[2, 32] = 9
    const %s: f32[2, 2] = [1, 2, 3, 4]
    %r = round_blocks {block=32} (%x)
    %wf = dequantize {axis=1, block=16} (%w, %s)
    %y = matmul {transpose_b=true} (%r, %wf)
    return "y" = %y)",
              R"(const %w: u4[2, 32] = 9
    const %s: f32[2, 2] = [1, 2, 3, 4]
    %y = weight_only_matmul {block=16, transposed=true, rounded_block=32} (%x, %w, %s)
    return "y" = %y)",
              "%x: f32[n, 32]");
}

TEST(WeightOnlyProducts, AScaleAColumnBehindATranspose) {
  expect_pass(weight_only_products, R"(const %w: i8[2, 5] = 9
    const %s: f32[2] = [1, 2]
    %wf = dequantize {axis=0} (%w, %s)
    %t = transpose {permutation=[1, 0]} (%wf)
    %y = matmul {} (%x, %t)
    return "y" = %y)",
              R"(const %w: i8[2, 5] = 9
    const %s: f32[2] = [1, 2]
    %columns = reshape {shape=shape(2, 1)} (%s)
    %y = weight_only_matmul {block=5, transposed=true} (%x, %w, %columns)
    return "y" = %y)",
              "%x: f32[n, 5]");
}

TEST(WeightOnlyProducts, OneScaleAndAZeroPointAColumn) {
  expect_pass(weight_only_products, R"(const %w: u8[5, 2] = 9
    const %s: f32[] = 2
    const %z: u8[2] = [1, 2]
    %wf = dequantize {axis=1} (%w, %s, %z)
    %y = matmul {} (%x, %wf)
    return "y" = %y)",
              R"(const %w: u8[5, 2] = 9
    const %s: f32[] = 2
    const %z: u8[2] = [1, 2]
    %scales = expand {shape=shape(1, 2)} (%s)
    %zeros = reshape {shape=shape(1, 2)} (%z)
    %y = weight_only_matmul {block=5} (%x, %w, %scales, %zeros)
    return "y" = %y)",
              "%x: f32[n, 5]");
}

TEST(WeightOnlyProducts, OfNarrowFloats) {
  for (const std::string scale : {"f16", "f32"}) {
    const std::string weights = "const %w: u4[2, 32] = 9\nconst %s: " + scale + "[2, 2] = [1, 2, 3, 4]\n";
    expect_pass(weight_only_products,
                weights +
                    "%wf = dequantize {dtype=f16, axis=1, block=16} (%w, %s)\n"
                    "%y = matmul {transpose_b=true} (%x, %wf)\nreturn \"y\" = %y",
                weights + "%y = weight_only_matmul {block=16, transposed=true} (%x, %w, %s)\nreturn \"y\" = %y",
                "%x: f16[n, 32]");
  }
  // Scales of bf16 become f32, as all but f16 do.
  const std::string weights = "const %w: u4[2, 32] = 9\nconst %s: bf16[2, 2] = [1, 2, 3, 4]\n";
  expect_pass(weight_only_products,
              weights +
                  "%wf = dequantize {dtype=bf16, axis=1, block=16} (%w, %s)\n"
                  "%y = matmul {transpose_b=true} (%x, %wf)\nreturn \"y\" = %y",
              weights +
                  "%f = cast {to=f32} (%s)\n"
                  "%y = weight_only_matmul {block=16, transposed=true} (%x, %w, %f)\nreturn \"y\" = %y",
              "%x: bf16[n, 32]");
}

// Steps that are no constants, scales along what is summed over, blocks of columns, small blocks, two steps' products.
TEST(WeightOnlyProducts, WhatStays) {
  const auto stays = [](const std::string& text, const std::string& inputs = "%x: f32[n, 32]") {
    expect_pass(weight_only_products, text, text, inputs);
  };
  stays(R"(const %s: f32[] = 2
    %wf = dequantize {} (%w, %s)
    %y = matmul {} (%x, %wf)
    return "y" = %y)",
        "%x: f32[n, 5], %w: i8[5, 2]");
  stays(R"(const %w: i8[32, 2] = 9
    const %s: f32[32] = 2
    %wf = dequantize {axis=0} (%w, %s)
    %y = matmul {} (%x, %wf)
    return "y" = %y)");
  stays(R"(const %w: i8[32, 32] = 9
    const %s: f32[32, 2] = 2
    %wf = dequantize {axis=1, block=16} (%w, %s)
    %y = matmul {} (%x, %wf)
    return "y" = %y)");
  stays(R"(const %w: i8[32, 2] = 9
    const %s: f32[4, 2] = 2
    %wf = dequantize {axis=0, block=8} (%w, %s)
    %y = matmul {} (%x, %wf)
    return "y" = %y)");
  stays(R"(const %w: i16[32, 2] = 9
    const %s: f32[] = 2
    %wf = dequantize {} (%w, %s)
    %y = matmul {} (%x, %wf)
    return "y" = %y)");
}

// Parameters in every shape that is taken: the same numbers, up to the order of sums.
TEST(WeightOnlyProducts, ComputeTheSame) {
  Random random(test_seed());
  const auto filled = [&](DType dtype, const Dims& dims) {
    Tensor t(dtype, dims);
    for (size_t i = 0; i < t.bytes(); ++i) t.mutable_data()[i] = static_cast<std::byte>(random.integer(0, 255));
    return t;
  };
  const auto floats = [&](const Dims& dims) {
    Tensor t(DType::f32, dims);
    for (int64_t i = 0; i < t.size(); ++i) t.as_mutable<float>()[i] = static_cast<float>(random.uniform(-1, 1));
    return t;
  };
  for (int round = 0; round < 60; ++round) {
    const int64_t k = random.integer(17, 70), n = random.integer(1, 6), block = 16 * random.integer(1, 3);
    const bool transposed = random.integer(0, 1) == 1;
    const int64_t depth = transposed ? 1 : 0, blocks = (k + block - 1) / block;
    const auto matrix = [&](int64_t rows) { return transposed ? Dims{n, rows} : Dims{rows, n}; };
    // Of all, of a column, of a block and column, of a block.
    const int64_t kind = random.integer(0, 3);
    const auto shape = [&] {
      if (kind == 0) return Dims{};
      if (kind == 1) return Dims{n};
      Dims dims = matrix(blocks);
      if (kind == 3) dims[static_cast<size_t>(1 - depth)] = 1;
      return dims;
    }();
    const DType dtype = std::vector{DType::u4, DType::i4, DType::u8, DType::i8}[static_cast<size_t>(round % 4)];
    Graph graph;
    const ValueId x = graph.add_input("x", {DType::f32, {3, Dim(k)}});
    std::vector<ValueId> parameters{graph.add_constant("w", filled(dtype, matrix(k))),
                                    graph.add_constant("s", floats(shape))};
    if (random.integer(0, 1) == 1)
      parameters.push_back(graph.add_constant("z", filled(dtype, random.integer(0, 1) == 1 ? shape : Dims{})));
    const ops::Dequantize dequantize{DType::f32, kind == 1 ? 1 - depth : depth, kind > 1 ? block : 0};
    const ValueId w = graph.add(dequantize, parameters, "wf");
    graph.add_output("y", graph.add(ops::MatMul{false, transposed}, {x, w}, "y"));
    Graph changed = graph;
    weight_only_products(changed, test_context());
    verify(changed, "the pass under test");
    for (const Node& node : changed.nodes) ASSERT_FALSE(node.op.as<ops::MatMul>()) << print(graph);
    const std::vector<Tensor> inputs{floats({3, k})};
    const std::vector<double> wanted = evaluate(graph, inputs, test_pool())[0].to_doubles(),
                              got = evaluate(changed, inputs, test_pool())[0].to_doubles();
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(got[i], wanted[i], 1e-3) << print(graph);
  }
}

}  // namespace
}  // namespace camshaft::weight_only_products_test
