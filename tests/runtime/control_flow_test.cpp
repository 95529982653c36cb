// Branches and loops through the optimiser, an engine file and a run.
#include "ir/ops/control_flow.h"

#include <gtest/gtest.h>

#include "base/temporary_folder.h"
#include "runtime/support.h"

namespace camshaft::control_flow_test {
namespace {

Tensor f32(Dims dims, const std::vector<float>& values) {
  return Tensor::of(DType::f32, std::move(dims), values);
}
Tensor boolean(bool value) {
  return Tensor::scalar(DType::boolean, value);
}

// A branch whose results have other sizes, and one that returns what it was given.
constexpr std::string_view branches = R"(graph "g" (%c: bool[], %x: f32[n, 2]) {
  const %w: f32[2] = [10, 20]
  %h = pointwise {function=mul} (%x, %w)
  %r, %s = if {} (%c, %h, %w)
    graph "then" (%a: f32[n, 2], %b: f32[2]) {
      %t = concat {axis=0} (%a, %a)
      return "r" = %t, "s" = %a
    }
    graph "else" (%a: f32[n, 2], %b: f32[2]) {
      %u = pointwise {function=neg} (%a)
      %v = pointwise {function=add} (%u, %b)
      return "r" = %v, "s" = %u
    }
  %q = pointwise {function=neg} (%r)
  %z = pointwise {function=neg} (%s)
  return "r" = %r, "q" = %q, "z" = %z
})";

TEST(ControlFlow, BranchesAfterReload) {
  TemporaryFolder folder;
  engine_from(branches).save(folder.file("e.engine"));
  const Engine engine = Engine::load(folder.file("e.engine"));
  for (int round = 0; round < 2; ++round) {
    const auto yes = run_engine(engine, {boolean(true), f32({1, 2}, {1, 2})});
    EXPECT_EQ(yes[0], f32({2, 2}, {10, 40, 10, 40}));
    EXPECT_EQ(yes[1], f32({2, 2}, {-10, -40, -10, -40}));
    EXPECT_EQ(yes[2], f32({1, 2}, {-10, -40}));
    const auto no = run_engine(engine, {boolean(false), f32({1, 2}, {1, 2})});
    EXPECT_EQ(no[0], f32({1, 2}, {0, -20}));
    EXPECT_EQ(no[1], f32({1, 2}, {-0.0F, 20}));
    EXPECT_EQ(no[2], f32({1, 2}, {10, 40}));
  }
}

// Weights of one name in both branches, a branch in a branch, a result that is an input, and a view that only some
// shapes allow.
constexpr std::string_view networks = R"(graph "g" (%c: bool[], %d: bool[1], %x: f32[n, 2], %y: f32[m]) {
  const %w: f32[2, 2] = [1, 2, 3, 4]
  %h = matmul (%x, %w)
  %r, %s = if {} (%c, %h, %d)
    graph "then" (%a: f32[n, 2], %e: bool[1]) {
      const %w: f32[2, 2] = [1, 0, 0, -1]
      %t = matmul (%a, %w)
      %u = if {} (%e, %t)
        graph "then" (%b: f32[n, 2]) { return "b" = %b }
        graph "else" (%b: f32[n, 2]) {
          %v = pointwise {function=neg} (%b)
          return "v" = %v
        }
      return "r" = %u, "s" = %a
    }
    graph "else" (%a: f32[n, 2], %e: bool[1]) {
      const %w: f32[2, 2] = [0, 1, 1, 0]
      const %zero: f32[] = 0
      %row = reshape {shape=shape(1, 2)} (%a)
      %t = matmul (%row, %w)
      %u = pointwise {function=max} (%t, %zero)
      %rows = expand {shape=shape(m, 2)} (%u)
      %most = reduce {kind=max, axes=[0], keep_dims=true} (%rows)
      %v = expand {shape=shape(n, 2)} (%most)
      return "r" = %v, "s" = %v
    }
  return "r" = %r, "s" = %s
})";

TEST(ControlFlow, BranchesAreCompiled) {
  TemporaryFolder folder;
  engine_from(networks).save(folder.file("e.engine"));
  const Engine engine = Engine::load(folder.file("e.engine"));
  std::vector<LayerInfo> layers = engine.layers();
  std::erase_if(layers, [](const LayerInfo& layer) { return layer.op == "copy"; });  // to a device
  ASSERT_EQ(layers.size(), 2U);
  EXPECT_EQ(layers[1].tactic, "branches");
  Context context = engine.create_context({2});
  const auto run = [&](std::vector<Tensor> inputs) {
    inputs.push_back(f32({3}, {0, 0, 0}));
    set_inputs(context, engine, inputs);
    context.run();
  };
  const Tensor yes = boolean(true).reshaped({1}), no = boolean(false).reshaped({1});
  for (int round = 0; round < 2; ++round) {
    run({boolean(true), no, f32({2, 2}, {1, 2, 3, 4})});
    EXPECT_EQ(output_of(context, "r"), f32({2, 2}, {-7, 10, -15, 22}));
    EXPECT_EQ(output_of(context, "s"), f32({2, 2}, {7, 10, 15, 22}));
    run({boolean(true), yes, f32({1, 2}, {1, 2})});
    EXPECT_EQ(output_of(context, "r"), f32({1, 2}, {7, -10}));
    run({boolean(false), yes, f32({1, 2}, {1, -2})});
    EXPECT_EQ(output_of(context, "r"), f32({1, 2}, {0, 0}));
    EXPECT_EQ(output_of(context, "s"), f32({1, 2}, {0, 0}));
    run({boolean(false), yes, f32({1, 2}, {1, 2})});
    EXPECT_EQ(output_of(context, "r"), f32({1, 2}, {10, 7}));
    // The other branch takes these shapes, this one does not.
    EXPECT_THROW(run({boolean(false), yes, f32({2, 2}, {1, 2, 3, 4})}), Error);
  }
}

// Found by fuzzing: what the node leaves out was written where no memory is.
TEST(ControlFlow, ResultsOfBranchesThatNobodyTakes) {
  const Engine engine = engine_from(R"(graph "g" (%c: bool[], %x: f32[n]) {
    %r = if {} (%c, %x)
      graph "then" (%a: f32[n]) {
        %s = pointwise {function=neg} (%a)
        %t = pointwise {function=exp} (%s)
        return "r" = %s, "left out" = %t
      }
      graph "else" (%a: f32[n]) {
        %s = pointwise {function=abs} (%a)
        return "r" = %s, "left out" = %a
      }
    return "r" = %r
  })");
  EXPECT_EQ(engine.layers().at(0).tactic, "branches");
  EXPECT_EQ(run_engine(engine, {boolean(true), f32({3}, {1, 2, 3})})[0], f32({3}, {-1, -2, -3}));
  EXPECT_EQ(run_engine(engine, {boolean(false), f32({2}, {-1, 2})})[0], f32({2}, {1, 2}));
}

// The sizes that a branch decides, as data: the tensor of them has a shape that is known all along.
TEST(ControlFlow, SizesOfABranchAsData) {
  const Engine engine = engine_from(R"(graph "g" (%c: bool[], %x: f32[n, 2]) {
    %r = if {} (%c, %x)
      graph "then" (%a: f32[n, 2]) {
        %t = concat {axis=0} (%a, %a)
        return "r" = %t
      }
      graph "else" (%a: f32[n, 2]) {
        %u = pointwise {function=neg} (%a)
        return "r" = %u
      }
    %d = dims {elements=shape(@r.0, 2*@r.0), dtype=i64} ()
    return "d" = %d
  })");
  EXPECT_EQ(run_engine(engine, {boolean(true), f32({3, 2}, {1, 2, 3, 4, 5, 6})})[0], Tensor::from_ints({6, 12}));
  EXPECT_EQ(run_engine(engine, {boolean(false), f32({1, 2}, {1, 2})})[0], Tensor::from_ints({1, 2}));
}

// A loop that doubles its vector until the sum reaches a limit, around a branch; a size of its own inside the body.
constexpr std::string_view loops = R"(graph "g" (%m: i64[], %x: f32[n], %limit: f32[]) {
  const %yes: bool[] = true
  %v, %sums = loop {carried=1} (%m, %yes, %x, %limit)
    graph "body" (%i: i64[], %on: bool[], %a: f32[@body.a.0], %l: f32[]) {
      %body.b = concat {axis=0} (%a, %a)
      %body.s = reduce {kind=sum, axes=[0], keep_dims=false} (%body.b)
      %body.below = pointwise {function=less} (%body.s, %l)
      %body.n = if {} (%body.below, %body.s)
        graph "then" (%t: f32[]) { return "t" = %t }
        graph "else" (%t: f32[]) {
          %e = pointwise {function=neg} (%t)
          return "e" = %e
        }
      return "on" = %body.below, "v" = %body.b, "n" = %body.n
    }
  %y = pointwise {function=add} (%v, %limit)
  return "y" = %y, "sums" = %sums
})";

TEST(ControlFlow, LoopsAfterReload) {
  TemporaryFolder folder;
  engine_from(loops).save(folder.file("e.engine"));
  const Engine engine = Engine::load(folder.file("e.engine"));
  Context context = engine.create_context({2});
  const Tensor m = Tensor::scalar(DType::i64, 9), x = f32({1}, {3}), limit = f32({}, {20});
  set_inputs(context, engine, {m, x, limit});
  context.run();
  EXPECT_EQ(output_of(context, "y"), f32({8}, std::vector<float>(8, 23)));
  EXPECT_EQ(output_of(context, "sums"), f32({3}, {6, 12, -24}));
  const Tensor once = Tensor::scalar(DType::i64, 1), longer = f32({2}, {1, 4});
  set_inputs(context, engine, {once, longer, limit});
  context.run();
  EXPECT_EQ(output_of(context, "y"), f32({4}, {21, 24, 21, 24}));
  EXPECT_EQ(output_of(context, "sums"), f32({1}, {10}));
}

}  // namespace
}  // namespace camshaft::control_flow_test
