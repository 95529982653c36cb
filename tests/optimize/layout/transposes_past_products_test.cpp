#include "optimize/layout/transposes_past_products.h"

#include "optimize/pass_test.h"
#include "reference/evaluate.h"
#include "reference/random_tensor.h"

namespace camshaft::transposes_past_products_test {
namespace {

const std::string constants =
    "const %w: f32[4, 6] = 0.5\nconst %v: f32[6, 4] = 0.25\nconst %b: f32[6] = [1, 2, 3, 4, 5, 6]\nconst %two: f32[] = "
    "2\n";

void changes(const std::string& before, const std::string& after) {
  expect_pass(transposes_past_products, constants + before, constants + after, "%x: f32[2, n, 4]");
}
void stays(const std::string& body) {
  changes(body, body);
}

TEST(TransposesPastProducts, DownToTheNextOne) {
  changes(R"(%t = transpose {permutation=[1, 0, 2]} (%x)
             %m = matmul (%t, %w)
             %a = pointwise {function=add} (%b, %m)
             %c = pointwise {function=mul} (%a, %two)
             %h = reshape {shape=shape(n, 2, 3, 2)} (%c)
             %u = transpose {permutation=[1, 2, 0, 3]} (%h)
             return "u" = %u)",
          R"(%m = matmul (%x, %w)
             %a = pointwise {function=add} (%b, %m)
             %c = pointwise {function=mul} (%a, %two)
             %t = transpose {permutation=[1, 0, 2]} (%c)
             %h = reshape {shape=shape(n, 2, 3, 2)} (%t)
             %u = transpose {permutation=[1, 2, 0, 3]} (%h)
             return "u" = %u)");
}

TEST(TransposesPastProducts, DownPastSeveral) {
  changes(R"(%t = transpose {permutation=[1, 0, 2]} (%x)
             %m = matmul (%t, %w)
             %n = matmul {transpose_b=true} (%t, %v)
             %p = transpose {permutation=[0, 2, 1]} (%m)
             %q = transpose {permutation=[2, 1, 0]} (%n)
             return "p" = %p, "q" = %q)",
          R"(%m = matmul (%x, %w)
             %mt = transpose {permutation=[1, 0, 2]} (%m)
             %n = matmul {transpose_b=true} (%x, %v)
             %nt = transpose {permutation=[1, 0, 2]} (%n)
             %p = transpose {permutation=[0, 2, 1]} (%mt)
             %q = transpose {permutation=[2, 1, 0]} (%nt)
             return "p" = %p, "q" = %q)");
}

TEST(TransposesPastProducts, UpToTheOneBefore) {
  changes(R"(%s = reshape {shape=shape(2, n, 2, 2)} (%x)
             %u = transpose {permutation=[1, 0, 3, 2]} (%s)
             %h = reshape {shape=shape(n, 2, 4)} (%u)
             %m = matmul (%h, %w)
             %a = pointwise {function=add} (%m, %b)
             %t = transpose {permutation=[1, 0, 2]} (%a)
             return "t" = %t, "a" = %x)",
          R"(%s = reshape {shape=shape(2, n, 2, 2)} (%x)
             %u = transpose {permutation=[1, 0, 3, 2]} (%s)
             %h = reshape {shape=shape(n, 2, 4)} (%u)
             %t = transpose {permutation=[1, 0, 2]} (%h)
             %m = matmul (%t, %w)
             %a = pointwise {function=add} (%m, %b)
             return "t" = %a, "a" = %x)");
}

// What makes bytes of the rows goes with the product of bytes.
TEST(TransposesPastProducts, UpPastStepsBeforeTheProduct) {
  const std::string begin =
      "const %k: i8[4, 6] = 3\n"
      R"(%u = transpose {permutation=[1, 0, 2]} (%x)
             %h = reshape {shape=shape(n, 2, 4)} (%u)
             )";
  changes(begin + R"(%s = pointwise {function=div} (%h, %two)
             %r = pointwise {function=round} (%s)
             %q = cast {to=u8} (%r)
             %m = integer_matmul (%q, %k)
             %f = cast {to=f32} (%m)
             %a = pointwise {function=mul} (%f, %b)
             %t = transpose {permutation=[1, 0, 2]} (%a)
             return "t" = %t)",
          begin + R"(%t = transpose {permutation=[1, 0, 2]} (%h)
             %s = pointwise {function=div} (%t, %two)
             %r = pointwise {function=round} (%s)
             %q = cast {to=u8} (%r)
             %m = integer_matmul (%q, %k)
             %f = cast {to=f32} (%m)
             %a = pointwise {function=mul} (%f, %b)
             return "t" = %a)");
  // Somebody else reads the bytes where they are.
  stays(begin + R"(%q = cast {to=u8} (%h)
             %m = integer_matmul (%q, %k)
             %t = transpose {permutation=[1, 0, 2]} (%m)
             return "t" = %t, "q" = %q)");
}

TEST(TransposesPastProducts, NotWhereNothingMeets) {
  const std::string down = "%t = transpose {permutation=[1, 0, 2]} (%x)\n%m = matmul (%t, %w)\n";
  stays(down + "return \"m\" = %m");
  stays(down + "%u = transpose {permutation=[1, 0, 2]} (%m)\nreturn \"u\" = %u, \"t\" = %t");
  stays(
      down +
      "%e = pointwise {function=exp} (%t)\n%u = transpose {permutation=[1, 0, 2]} (%m)\nreturn \"u\" = %u, \"e\" = %e");
  stays(down + "%u = transpose {permutation=[1, 0, 2]} (%m)\nreturn \"u\" = %u, \"m\" = %m");
  stays(
      "%t = transpose {permutation=[0, 2, 1]} (%x)\n%y = reshape {shape=shape(n, 2, 4)} (%t)\n%m = matmul (%y, "
      "%w)\nreturn \"m\" = %m");
  stays(
      "%e = pointwise {function=exp} (%x)\n%m = matmul (%e, %w)\n%t = transpose {permutation=[1, 0, 2]} (%m)\nreturn "
      "\"t\" = %t");
}

TEST(TransposesPastProducts, SameResults) {
  Random random = test_random();
  // Both sides of an attention that has sequences before batches, at their simplest; and one transpose between two
  // products, which goes to one side only.
  Graph graph = parse_graph(
      "graph (%x: f32[3, 5, 8]) {\n"
      "const %w: f32[8, 24] = 1\nconst %b: f32[24] = 1\nconst %v: f32[8, 8] = 1\nconst %c: f32[8] = 1\n"
      "%t = transpose {permutation=[1, 0, 2]} (%x)\n"
      "%m = matmul (%t, %w)\n%mb = pointwise {function=add} (%m, %b)\n"
      "%h = reshape {shape=shape(5, 3, 3, 8)} (%mb)\n%u = transpose {permutation=[2, 1, 0, 3]} (%h)\n"
      "%s = reduce {kind=sum, axes=[0], keep_dims=false} (%u)\n"
      "%e = transpose {permutation=[1, 0, 2]} (%s)\n"
      "%o = matmul {transpose_b=true} (%e, %v)\n%ob = pointwise {function=add} (%c, %o)\n"
      "%y = transpose {permutation=[1, 0, 2]} (%ob)\n%z = matmul (%y, %v)\n%zt = transpose {permutation=[1, 0, 2]} "
      "(%z)\n"
      "return \"y\" = %zt\n}",
      operators());
  for (Value& v : graph.values)
    if (v.constant) v.constant = std::make_shared<const Tensor>(random_tensor(random, DType::f32, v.constant->dims()));
  const std::vector<Tensor> inputs{random_tensor(random, DType::f32, {3, 5, 8})};
  const std::vector<double> expected = evaluate(graph, inputs, test_pool())[0].to_doubles();
  const std::string before = print(graph);
  transposes_past_products(graph, test_context());
  verify(graph, "the pass");
  EXPECT_NE(print(graph), before);
  const std::vector<double> actual = evaluate(graph, inputs, test_pool())[0].to_doubles();
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-5) << i;
}

}  // namespace
}  // namespace camshaft::transposes_past_products_test
