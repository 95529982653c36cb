// Squeeze and excite in one kernel, against the reference.
#include <gtest/gtest.h>

#include <limits>

#include "backends/cuda/codegen/squeeze_excite_text.h"
#include "backends/cuda/driver/compiler.h"
#include "backends/cuda/run_node.h"
#include "ir/ops/contract.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/ops/region.h"
#include "reference/random_tensor.h"

namespace camshaft::cuda::squeeze_excite_test {
namespace {

using F = ScalarFunction;

struct Case {
  Dims x;  // channels last
  int64_t hidden = 8;
  bool by_product = false;  // of rows, in place of convolutions
  bool shortcut = false;    // max(image · gates + shortcut, 0) · scale of each channel
};

/// A chain as passes/chain_squeeze_excite.h makes it.
class Chain {
 public:
  Chain(const Case& c, DType dtype, Random& random) : case_(c), dtype_(dtype), random_(random) {
    const int64_t channels = c.x.back();
    const ValueId image = operand(random_tensor(random, dtype, c.x));
    std::vector<int64_t> axes;
    for (size_t a = 1; a + 1 < c.x.size(); ++a) axes.push_back(static_cast<int64_t>(a));
    const ValueId mean = body_.add(ops::Reduce{ops::ReduceKind::mean, axes, true}, {image}, "mean");
    const ValueId hidden = product(mean, channels, c.hidden, true);
    const ValueId gates = product(hidden, c.hidden, channels, false);
    scale(image, gates);
  }

  NodeTest test(const std::string& tactic = "cuda_squeeze_excite") const {
    // The mean is not rounded to 16 bits in between, as the reference's is.
    NodeTest made(ops::Region{ops::RegionKind::chain}, operands, tactic,
                  dtype_ == DType::f32   ? 4e-6
                  : dtype_ == DType::f16 ? 2e-3
                                         : 2e-2);
    made.constants = constants_;
    made.bodies = {body_};
    return made;
  }

  std::vector<Tensor> operands;  // the image first

 private:
  ValueId operand(Tensor t, bool is_constant = false) {
    if (is_constant) constants_.push_back(operands.size());
    operands.push_back(std::move(t));
    const Tensor& kept = operands.back();
    return body_.add_input("x" + std::to_string(operands.size()),
                           {kept.dtype(), Shape(kept.dims().begin(), kept.dims().end())});
  }

  // A region over some operands whose body `make` fills: it is given the body's inputs, and gives back its result in
  // f32.
  template <class Make>
  ValueId region(ops::RegionKind kind, const std::vector<ValueId>& inputs, Make make) {
    Graph body;
    std::vector<ValueId> inner;
    for (const ValueId id : inputs) inner.push_back(body.add_input("i" + std::to_string(inner.size()), body_.type(id)));
    ValueId last = make(body, inner);
    if (dtype_ != DType::f32) last = body.add(ops::Cast{.to = dtype_}, {last}, "narrow");
    body.add_output("out", last);
    return body_.add_node(ops::Region{kind}, inputs, {"r" + std::to_string(body_.values.size())}, {}, {body})[0];
  }
  static ValueId wide(Graph& body, ValueId id) {
    return body.type(id).dtype == DType::f32 ? id : body.add(ops::Cast{.to = DType::f32}, {id}, "wide");
  }
  static ValueId apply(Graph& body, F f, const std::vector<ValueId>& inputs) {
    return body.add(ops::Pointwise{f}, inputs, "y");
  }

  ValueId product(ValueId x, int64_t from, int64_t to, bool is_squeeze) {
    const size_t rank = case_.x.size();
    Op op = ops::MatMul{};
    Dims weights{from, to};
    if (!case_.by_product) {
      ops::Conv conv;
      conv.strides = conv.dilations = Dims(rank - 2, 1);
      conv.pads = Shape(2 * (rank - 2), Dim(0));
      conv.channels_last = true;
      op = conv;
      weights = Dims(rank, 1);
      weights[0] = to;
      weights[1] = from;
    }
    // Sums of about 1, where sigmoids tell them apart.
    std::vector<double> numbers(static_cast<size_t>(from * to));
    for (double& n : numbers) n = random_.uniform(-2, 2) / std::sqrt(static_cast<double>(from));
    const ValueId w = operand(tensor_of(dtype_, weights, numbers), true);
    const ValueId b = operand(random_tensor(random_, dtype_, {to}), true);
    return region(ops::RegionKind::contract, {x, w, b}, [&](Graph& body, const std::vector<ValueId>& in) {
      ValueId sum;
      if (case_.by_product) {
        sum = wide(body, body.add(op, {in[0], in[1]}, "sum"));
        sum = apply(body, F::add, {sum, wide(body, in[2])});
      } else {
        sum = wide(body, body.add(op, in, "sum"));
      }
      const ValueId sigmoid = apply(body, F::sigmoid, {sum});
      return is_squeeze ? apply(body, F::mul, {sum, sigmoid}) : sigmoid;
    });
  }

  void scale(ValueId image, ValueId gates) {
    std::vector<ValueId> inputs{image, gates};
    if (case_.shortcut) {
      inputs.push_back(operand(random_tensor(random_, dtype_, case_.x)));
      inputs.push_back(operand(random_tensor(random_, dtype_, {case_.x.back()})));
    }
    const ValueId y = region(ops::RegionKind::pointwise, inputs, [&](Graph& body, const std::vector<ValueId>& in) {
      ValueId made = apply(body, F::mul, {wide(body, in[1]), wide(body, in[0])});
      if (!case_.shortcut) return made;
      made = apply(body, F::add, {made, wide(body, in[2])});
      const ValueId zero = body.add_constant("zero", tensor_of(DType::f32, {}, {0}));
      return apply(body, F::mul, {apply(body, F::max, {made, zero}), wide(body, in[3])});
    });
    body_.add_output("y", y);
  }

  Case case_;
  DType dtype_;
  Random& random_;
  Graph body_;
  std::vector<size_t> constants_;
};

void check(const Case& c, DType dtype, Random& random, const std::string& variant = {}, bool misaligned = false) {
  SCOPED_TRACE(variant);
  NodeTest test = Chain(c, dtype, random).test();
  test.variant = variant;
  test.misaligned = misaligned;
  test.check();
}

TEST(CudaSqueezeExcite, SlabsAndPartsWithTails) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : types_of_products())
    for (const bool misaligned : {false, true}) {
      check({.x = {1, 7, 5, 64}, .hidden = 16}, dtype, random, {}, misaligned);
      check({.x = {2, 9, 8, 40}, .hidden = 7}, dtype, random, {}, misaligned);
      check({.x = {8, 3, 3, 21}, .hidden = 1}, dtype, random, {}, misaligned);
      check({.x = {1, 1, 1, 162}, .hidden = 13}, dtype, random, {}, misaligned);
      check({.x = {1, 40, 41, 8}, .hidden = 2}, dtype, random, {}, misaligned);
      check({.x = {3, 6, 5, 1}, .hidden = 3}, dtype, random, {}, misaligned);
    }
}

TEST(CudaSqueezeExcite, EveryVariant) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f32, DType::f16})
    for (const Case& c : {Case{.x = {2, 6, 7, 168}, .hidden = 20}, Case{.x = {1, 11, 13, 30}, .hidden = 9}})
      for (const std::string& variant : Chain(c, dtype, random).test().variants())
        check(c, dtype, random, variant.substr(variant.find('(')));
}

TEST(CudaSqueezeExcite, WhatSharedMemoryHasNoRoomForIsReadAgain) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const char* variant : {"blocks=1,threads=512", "blocks=2,threads=256"}) {
    if (Chain({.x = {1, 2, 2, 8}}, DType::f16, random).test().variants().size() < 4 && variant[7] != '1') continue;
    for (const DType dtype : {DType::f32, DType::f16}) {
      check({.x = {1, 61, 60, 64}, .hidden = 8}, dtype, random, variant);  // an image, …
      check({.x = {1, 61, 60, 63}, .hidden = 8}, dtype, random, variant);
      check({.x = {2, 3, 3, 640}, .hidden = 200}, dtype, random, variant);  // … or weights
    }
  }
}

TEST(CudaSqueezeExcite, ProductsOfRowsAndWhatFollowsTheGates) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f32, DType::f16})
    for (const bool misaligned : {false, true}) {
      check({.x = {2, 19, 48}, .hidden = 12}, dtype, random, {}, misaligned);
      check({.x = {2, 19, 48}, .hidden = 12, .by_product = true}, dtype, random, {}, misaligned);
      check({.x = {2, 5, 6, 72}, .hidden = 12, .shortcut = true}, dtype, random, {}, misaligned);
      check({.x = {1, 5, 6, 27}, .hidden = 12, .by_product = true, .shortcut = true}, dtype, random, {}, misaligned);
    }
}

TEST(CudaSqueezeExcite, NoImagesAndNoPixels) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  check({.x = {0, 4, 4, 16}}, DType::f16, random);
  check({.x = {2, 0, 4, 16}}, DType::f16, random);
}

TEST(CudaSqueezeExcite, WhatIsNoNumberStaysInItsImage) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  for (const DType dtype : {DType::f32, DType::f16})
    for (const double special : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      Chain chain({.x = {3, 5, 5, 24}}, dtype, random);
      std::vector<double> image = chain.operands[0].to_doubles();
      image[5 * 5 * 24 + 77] = special;  // of the second image
      chain.operands[0] = tensor_of(dtype, {3, 5, 5, 24}, image);
      const NodeTest test = chain.test();
      const Tensor result = test.run();
      const std::vector<double> got = result.to_doubles();
      for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(std::isfinite(got[i]), i / (5 * 5 * 24) != 1) << i;
    }
}

TEST(CudaSqueezeExcite, OtherChainsAreNotTaken) {
  SKIP_WITHOUT_GPU();
  Random random = test_random();
  const auto is_taken = [&](const auto& change) {
    NodeTest test = Chain({.x = {2, 5, 5, 24}}, DType::f32, random).test();
    change(test);
    return !test.variants().empty();
  };
  EXPECT_TRUE(is_taken([](NodeTest&) {}));
  const auto with_mean = [](const ops::Reduce& mean) {
    return [mean](NodeTest& test) { test.bodies[0].nodes[0].op = mean; };
  };
  EXPECT_FALSE(is_taken(with_mean({ops::ReduceKind::sum, {1, 2}, true})));
  EXPECT_FALSE(is_taken([](NodeTest& test) { test.constants = {2, 3, 4}; }));  // weights that are computed
  // Gates of each pixel: what is multiplied twice.
  EXPECT_FALSE(is_taken([](NodeTest& test) {
    Node& last = test.bodies[0].nodes[3];
    last.inputs[1] = last.inputs[0];
  }));
}

TEST(SqueezeExciteText, Compiles) {
  const Library<api::Nvrtc>& nvrtc = nvrtc_library();
  if (!nvrtc.problem.empty()) GTEST_SKIP() << nvrtc.problem;
  const Compiler compiler(nvrtc);
  using Kind = ScalarInstruction::Kind;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    ScalarProgram biased;  // sigmoid(sum + bias)
    biased.inputs = 2;
    biased.instructions = {{.kind = Kind::load, .dtype = DType::f32, .a = 0},
                           {.kind = Kind::load, .dtype = dtype, .a = 1},
                           {.kind = Kind::apply, .function = F::add, .dtype = DType::f32, .a = 0, .b = 1},
                           {.kind = Kind::apply, .function = F::sigmoid, .dtype = DType::f32, .a = 2}};
    biased.outputs = {3};
    ScalarProgram combined;  // image · gate · one + dense
    combined.inputs = 4;
    combined.instructions = {{.kind = Kind::load, .dtype = dtype, .a = 0},
                             {.kind = Kind::load, .dtype = dtype, .a = 1},
                             {.kind = Kind::load, .dtype = DType::f32, .a = 2},
                             {.kind = Kind::load, .dtype = dtype, .a = 3},
                             {.kind = Kind::apply, .function = F::mul, .dtype = DType::f32, .a = 0, .b = 1},
                             {.kind = Kind::apply, .function = F::mul, .dtype = DType::f32, .a = 4, .b = 2},
                             {.kind = Kind::apply, .function = F::add, .dtype = DType::f32, .a = 5, .b = 3}};
    combined.outputs = {6};
    using Operand = GateOperand::Kind;
    const SqueezeExciteForm form{
        dtype,
        {biased, {{}, {Operand::channels, dtype}}, dtype},
        {biased, {{}, {Operand::one, dtype}}, dtype},
        {combined, {{}, {Operand::gate, dtype}, {Operand::one, DType::f32}, {Operand::dense, dtype}}, dtype}};
    for (const int capability : {75, 80, 90, 100})
      EXPECT_FALSE(compiler.compile({"squeeze_excite", squeeze_excite_text(form), architecture(capability)}).empty());
  }
}

}  // namespace
}  // namespace camshaft::cuda::squeeze_excite_test
