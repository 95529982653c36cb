// Single nodes with random fields and shapes, among them symbols that a shape rule can only hope to be equal: whatever
// sizes a caller then gives, a kernel agrees with the reference or refuses, and never touches memory that is not its
// own (which the builds with AddressSanitizer see).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "ir/ops/contract.h"
#include "ir/ops/generate.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/reduce.h"
#include "ir/ops/region.h"
#include "ir/ops/resize.h"
#include "reference/random_tensor.h"
#include "runtime/support.h"

namespace camshaft::random_nodes_test {
namespace {

class Generator {
 public:
  explicit Generator(Random& random) : random_(random) {}

  int64_t integer(int64_t low, int64_t high) { return random_.integer(low, high); }
  bool chance(double p) { return random_.uniform() < p; }
  template <class T>
  T any(std::vector<T> list) {
    return list[static_cast<size_t>(integer(0, static_cast<int64_t>(list.size()) - 1))];
  }
  Dim dim() {
    static const char* names[] = {"n", "m", "k", "p"};
    const int64_t kind = integer(0, 9);
    if (kind < 4) return Dim::symbol(names[integer(0, 3)]);
    if (kind == 4) return Dim(1);
    if (kind == 5) return Dim::symbol(names[integer(0, 3)]) + Dim(integer(0, 2));
    return Dim(integer(chance(0.1) ? 0 : 1, 6));
  }
  /// Mostly one of those that came before, so that shapes fit together now and then.
  Dim familiar() {
    if (!seen_.empty() && chance(0.8)) return any(seen_);
    seen_.push_back(dim());
    return seen_.back();
  }
  Shape shape(int64_t rank) {
    Shape s;
    for (int64_t i = 0; i < rank; ++i) s.push_back(familiar());
    return s;
  }
  std::vector<int64_t> integers(int64_t count, int64_t low, int64_t high) {
    std::vector<int64_t> list;
    for (int64_t i = 0; i < count; ++i) list.push_back(integer(low, high));
    return list;
  }
  Shape dims(int64_t count, int64_t low, int64_t high) {
    Shape list;
    for (int64_t i = 0; i < count; ++i) list.push_back(chance(0.1) ? familiar() : Dim(integer(low, high)));
    return list;
  }
  ValueId input(Graph& g, Shape s, DType dtype = DType::f32) { return g.add_input("i", {dtype, std::move(s)}); }
  /// A constant where the shape allows it, else an input.
  ValueId weights(Graph& g, const Shape& s, DType dtype = DType::f32) {
    Dims sizes;
    for (const Dim& d : s) sizes.push_back(d.as_constant().value_or(integer(1, 5)));
    return chance(0.85) ? g.add_constant("c", random_tensor(random_, dtype, sizes)) : input(g, s, dtype);
  }
  DType dtype() {
    return chance(0.6) ? DType::f32
                       : any<DType>({DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32, DType::i8, DType::u8,
                                     DType::boolean, DType::u16, DType::i16});
  }

  std::vector<ValueId> node(Graph& g) {
    const auto one = [](ValueId id) { return std::vector<ValueId>{id}; };
    switch (integer(0, 20)) {
      case 0:
      case 1: {
        const ValueId a = input(g, shape(integer(2, 5)), chance(0.9) ? DType::f32 : dtype());
        const ValueId b = weights(g, shape(integer(2, 5)), g.type(a).dtype);
        return one(g.add(ops::MatMul{chance(0.2), chance(0.4)}, {a, b}, "y"));
      }
      case 2:
      case 3:
      case 4: {
        const int64_t spatial = integer(1, 3), groups = integer(1, 3), per_group = integer(1, 3);
        const bool last = chance(0.8), transposed = chance(0.3), depthwise = chance(0.3);
        Shape x = shape(spatial + 2);
        const int64_t in = depthwise ? groups : groups * per_group;
        if (chance(0.8)) x[last ? x.size() - 1 : 1] = in;
        Shape w{transposed ? in : groups * integer(1, 3), transposed ? integer(1, 3) : in / groups};
        for (const int64_t k : integers(spatial, chance(0.03) ? 0 : 1, 3)) w.emplace_back(k);
        std::vector<ValueId> operands{input(g, x), weights(g, w)};
        if (chance(0.5))
          operands.push_back(weights(g, {chance(0.9) ? (transposed ? w[1] * Dim(groups) : w[0]) : dim()}));
        if (transposed)
          return one(g.add(ops::ConvTranspose{integers(spatial, 1, 3), dims(2 * spatial, 0, 1), integers(spatial, 1, 2),
                                              dims(spatial, 0, 1), groups, last},
                           operands, "y"));
        return one(
            g.add(ops::Conv{integers(spatial, 1, 3), dims(2 * spatial, -1, 2), integers(spatial, 1, 2), groups, last},
                  operands, "y"));
      }
      case 5:
      case 6: {
        const auto function = static_cast<ScalarFunction>(integer(0, scalar_function_count - 1));
        const DType type = dtype();
        std::vector<ValueId> operands;
        for (int i = 0; i < arity(function); ++i)
          operands.push_back(
              weights(g, shape(integer(0, 4)), function == ScalarFunction::select && i == 0 ? DType::boolean : type));
        return one(g.add(ops::Pointwise{function}, operands, "y"));
      }
      case 7:
        return one(g.add(ops::Cast{dtype()}, {input(g, shape(integer(0, 4)), dtype())}, "y"));
      case 8:
        return one(g.add(ops::Softmax{integer(-1, 3), chance(0.3)}, {input(g, shape(integer(1, 4)))}, "y"));
      case 9: {
        const int64_t rank = integer(1, 4), axis = integer(0, rank - 1);
        const ValueId x = input(g, shape(rank));
        const Shape row(g.shape(x).begin() + axis, g.shape(x).end());
        return one(g.add(ops::LayerNorm{axis, 1e-5, chance(0.3)},
                         {x, chance(0.7) ? weights(g, row) : no_value, chance(0.5) ? weights(g, row) : no_value}, "y"));
      }
      case 10: {
        const bool last = chance(0.5);
        const ValueId x = input(g, shape(integer(2, 4)));
        const Shape c{g.shape(x)[last ? g.shape(x).size() - 1 : 1]};
        return one(g.add(ops::GroupNorm{integer(1, 3), 1e-5, last},
                         {x, chance(0.7) ? weights(g, c) : no_value, chance(0.5) ? weights(g, c) : no_value}, "y"));
      }
      case 11: {
        std::vector<int64_t> axes;
        const int64_t rank = integer(0, 4);
        for (int64_t a = 0; a < rank; ++a)
          if (chance(0.5)) axes.push_back(a);
        return one(g.add(ops::Reduce{static_cast<ops::ReduceKind>(integer(0, 6)), axes, chance(0.5)},
                         {input(g, shape(rank), dtype())}, "y"));
      }
      case 12:
        return one(g.add(ops::ArgReduce{chance(0.5), integer(0, 2), chance(0.5), chance(0.5)},
                         {input(g, shape(integer(1, 3)), dtype())}, "y"));
      case 13: {
        const int64_t spatial = integer(1, 2);
        return one(
            g.add(ops::Pool{static_cast<ops::PoolKind>(integer(0, 1)), integers(spatial, 1, 3), integers(spatial, 1, 3),
                            dims(2 * spatial, 0, 2), integers(spatial, 1, 2), chance(0.3), chance(0.5), chance(0.5)},
                  {input(g, shape(spatial + 2))}, "y"));
      }
      case 14: {
        const int64_t rank = integer(0, 4);
        std::vector<int64_t> permutation;
        for (int64_t i = 0; i < rank; ++i) permutation.insert(permutation.begin() + integer(0, i), i);
        return one(g.add(ops::Transpose{permutation}, {input(g, shape(rank), dtype())}, "y"));
      }
      case 15:
        return one(g.add(ops::Expand{shape(integer(0, 4))}, {input(g, shape(integer(0, 4)), dtype())}, "y"));
      case 16: {
        ops::Slice op;
        const int64_t rank = integer(1, 4);
        for (int64_t a = 0; a < rank; ++a) {
          if (chance(0.4)) continue;
          op.axes.push_back(a);
          op.starts.push_back(chance(0.2) ? familiar() : Dim(integer(0, 4)));
          op.counts.push_back(chance(0.3) ? familiar() : Dim(integer(0, 3)));
          op.steps.push_back(any<int64_t>({1, 1, 2, -1, -2}));
        }
        return one(g.add(op, {input(g, shape(rank), dtype())}, "y"));
      }
      case 17: {
        const int64_t rank = integer(1, 4);
        const DType type = dtype();
        std::vector<ValueId> parts;
        for (int64_t i = integer(1, 4); i > 0; --i) parts.push_back(weights(g, shape(rank), type));
        return one(g.add(ops::Concat{integer(0, rank - 1)}, parts, "y"));
      }
      case 18: {
        const int64_t rank = integer(1, 4);
        const DType type = dtype();
        std::vector<ValueId> operands{input(g, shape(rank), type)};
        if (chance(0.5)) operands.push_back(weights(g, chance(0.6) ? Shape{} : shape(1), type));
        return one(g.add(ops::Pad{static_cast<ops::PadMode>(integer(0, 3)), dims(2 * rank, -1, 2)}, operands, "y"));
      }
      case 19: {
        const int64_t rank = integer(1, 3);
        const DType index = any<DType>({DType::i64, DType::i32});
        const ValueId x = input(g, shape(rank), dtype());
        if (chance(0.5))
          return one(g.add(ops::Gather{integer(0, rank - 1)}, {x, input(g, shape(integer(0, 2)), index)}, "y"));
        return one(g.add(ops::GatherElements{integer(0, rank - 1)}, {x, input(g, shape(rank), index)}, "y"));
      }
      default: {
        const int64_t rank = integer(3, 4);
        ops::Resize op;
        op.mode = static_cast<ops::ResizeMode>(integer(0, 2));
        op.coordinate = static_cast<ops::ResizeCoordinate>(integer(0, 4));
        op.nearest = static_cast<ops::ResizeNearest>(integer(0, 3));
        for (int64_t a = 0; a < rank; ++a) {
          if (!(chance(0.2) || (a > 0 && chance(0.5)))) continue;
          op.axes.push_back(a);
          op.sizes.push_back(dim());
        }
        op.antialias = chance(0.2);
        return one(g.add(op, {input(g, shape(rank))}, "y"));
      }
    }
  }

  /// A region of that node and a few pointwise ones behind it.
  std::vector<ValueId> region(Graph& g) {
    Graph body;
    node(body);
    ValueId y = body.nodes.back().outputs[0];
    for (int64_t more = integer(0, 3); more > 0; --more) {
      const auto function = any<ScalarFunction>({ScalarFunction::add, ScalarFunction::mul, ScalarFunction::max,
                                                 ScalarFunction::tanh, ScalarFunction::min, ScalarFunction::sub});
      std::vector<ValueId> operands{y};
      if (arity(function) == 2) {
        Shape s = body.shape(y);
        if (chance(0.3) && !s.empty()) s.erase(s.begin());
        if (chance(0.3) && !s.empty()) s[static_cast<size_t>(integer(0, static_cast<int64_t>(s.size()) - 1))] = dim();
        operands.push_back(chance(0.3) ? body.add_constant("k", random_tensor(random_, body.type(y).dtype, {}))
                                       : input(body, s, body.type(y).dtype));
        if (chance(0.3)) std::swap(operands[0], operands[1]);
      }
      y = body.add(ops::Pointwise{function}, operands, "z");
    }
    body.add_output("y", y);
    return close_over(g, body, ops::RegionKind::contract);
  }

  /// A chain of two or three convolutions, of sizes that a kernel for them may take.
  std::vector<ValueId> chain(Graph& g) {
    Graph body;
    ValueId y = input(body, shape(4));
    const int64_t wide = integer(2, 5);
    const auto channels = [&](const Dim& seen) { return chance(0.8) ? seen.as_constant().value_or(wide) : wide; };
    const auto add = [&](const Shape& w, int64_t groups) {
      ops::Conv op{{1, 1}, Shape(4, 0), {1, 1}, groups, true};
      if (groups > 1) op = {integers(2, 1, 3), dims(4, -1, 2), integers(2, 1, 2), groups, true};
      std::vector<ValueId> operands{y, weights(body, w)};
      if (chance(0.5)) operands.push_back(weights(body, {w[0]}));
      if (chance(0.5)) {
        y = body.add(op, operands, "c");
        return;
      }
      Graph part;
      std::vector<ValueId> own;
      for (const ValueId id : operands) own.push_back(part.add_input("p", body.type(id)));
      const ValueId zero = part.add_constant("zero", Tensor::scalar(DType::f32, 0));
      ValueId z = part.add(ops::Pointwise{ScalarFunction::max}, {part.add(op, own, "c"), zero}, "m");
      if (chance(0.3)) {
        operands.push_back(input(body, part.shape(z)));
        z = part.add(ops::Pointwise{ScalarFunction::add}, {z, part.add_input("p", part.type(z))}, "s");
      }
      part.add_output("z", z);
      y = body.add_node(ops::Region{ops::RegionKind::contract}, operands, {"r"}, {}, {part})[0];
    };
    const int64_t missing = integer(0, 3);
    if (missing != 1) add({wide, channels(body.shape(y)[3]), 1, 1}, 1);
    const int64_t groups = missing != 1 ? wide : channels(body.shape(y)[3]);
    add({groups, 1, integer(1, 3), integer(1, 3)}, groups);
    if (missing != 2) add({integer(1, 5), groups, 1, 1}, 1);
    body.add_output("y", y);
    return close_over(g, body, ops::RegionKind::chain);
  }

 private:
  std::vector<ValueId> close_over(Graph& g, Graph& body, ops::RegionKind kind) {
    // Constant tensors of a body are inputs of the region.
    std::vector<ValueId> operands;
    for (const ValueId id : body.inputs) operands.push_back(input(g, body.shape(id), body.type(id).dtype));
    for (size_t v = 0; v < body.values.size(); ++v) {
      Value& value = body.values[v];
      if (!value.constant || value.constant->size() == 1) continue;
      operands.push_back(g.add_constant("c", {value.constant, value.provenance}));
      value.constant = nullptr;
      value.content.reset();
      body.inputs.push_back(static_cast<ValueId>(v));
    }
    return g.add_node(ops::Region{kind}, operands, {"y"}, {}, {body});
  }

  Random& random_;
  std::vector<Dim> seen_;
};

bool close(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || a.dims() != b.dims()) return false;
  const std::vector<double> x = a.to_doubles(), y = b.to_doubles();
  double scale = 1;
  for (const double v : y)
    if (std::isfinite(v)) scale = std::max(scale, std::abs(v));
  const double unit = !is_floating(a.dtype())      ? 0
                      : a.dtype() == DType::f16    ? 2e-3
                      : a.dtype() == DType::bf16   ? 2e-2
                      : bit_width(a.dtype()) >= 32 ? 1e-4
                                                   : 0.3;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]))) continue;
    if (!(std::abs(x[i] - y[i]) <= unit * scale)) return false;
  }
  return true;
}

TEST(RandomNodes, AgreeWithTheReferenceOrRefuse) {
  Random random = test_random();
  const char* wanted = std::getenv("CAMSHAFT_TEST_ROUNDS");
  const int rounds = wanted ? std::atoi(wanted) : 4000;
  int nodes = 0, agreed = 0, chains = 0, refused = 0;
  ThreadPool pool(1);
  for (int round = 0; round < rounds; ++round) {
    Generator generator(random);
    Graph g;
    try {
      const double kind = random.uniform();
      const auto y = kind < 0.35 ? generator.region(g) : kind < 0.5 ? generator.chain(g) : generator.node(g);
      for (const ValueId id : y) g.add_output("y", id);
    } catch (const Error&) {
      continue;  // a rule refused it
    }
    ++nodes;
    const std::string text = print(g, {.max_constant_elements = 4});
    SCOPED_TRACE(text);
    const Engine engine = compile_graph(g, test_backend());
    for (int run = 0; run < 3; ++run) {
      SymbolBindings symbols;
      for (const char* name : {"n", "m", "k", "p"}) symbols[name] = random.integer(run == 0 ? 1 : 0, 5);
      if (run == 1) symbols["m"] = symbols["k"] = symbols["p"] = symbols["n"];
      std::vector<Tensor> inputs;
      try {
        for (const ValueId id : g.inputs) {
          Dims dims;
          for (const Dim& d : g.shape(id)) dims.push_back(d.evaluate(symbols));
          inputs.push_back(random_tensor(random, g.type(id).dtype, dims));
        }
      } catch (const Error&) {
        continue;  // an input's own shape has no value
      }
      // Exactly as large as it says, so that a read beyond the end is seen.
      std::vector<std::vector<std::byte>> exact;
      for (const Tensor& t : inputs) exact.emplace_back(t.span().begin(), t.span().end());
      std::optional<Tensor> expected, actual;
      try {
        expected = evaluate(g, inputs, pool)[0];
      } catch (const Error& e) {
        ASSERT_NE(e.code(), ErrorCode::internal) << e.what();
      }
      std::string why;
      try {
        Context context = engine.create_context({static_cast<int>(random.integer(1, 2))});
        for (size_t i = 0; i < inputs.size(); ++i)
          context.set_input(engine.inputs()[i].name, inputs[i].dims(), exact[i].data());
        context.run();
        actual = output_of(context, "y");
      } catch (const Error& e) {
        ASSERT_NE(e.code(), ErrorCode::internal) << e.what();
        why = e.what();
      }
      if (expected) {
        // A field may name a symbol that no input has, and the reference not look at it.
        if (!actual && why.find("has no value yet") != std::string::npos) continue;
        ASSERT_TRUE(actual) << "the kernel refuses what the reference takes: " << why;
        ASSERT_TRUE(close(*actual, *expected)) << "tactic " << engine.layers()[0].tactic;
        ++agreed;
        if (engine.layers()[0].tactic == "bands") ++chains;
      } else {
        ++refused;
      }
    }
  }
  std::printf("%d nodes, %d runs agreed, %d of them of chains, %d refused by the reference\n", nodes, agreed, chains,
              refused);
  EXPECT_GT(agreed, nodes / 2);
}

}  // namespace
}  // namespace camshaft::random_nodes_test
