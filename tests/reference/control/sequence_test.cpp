// Operators over sequences and optionals: types, values, and what is refused.
#include "ir/ops/sequence.h"

#include <gtest/gtest.h>

#include "base/budget.h"
#include "base/work_scope.h"
#include "ir/container_type.h"
#include "ir/ops/operators.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "reference/evaluate.h"
#include "reference/operations.h"
#include "reference/run_graph.h"
#include "reference/single_op.h"

namespace camshaft::sequence_test {
namespace {

Tensor number(int64_t value) {
  return Tensor::of(DType::i64, {}, std::vector<int64_t>{value});
}

const Tensor a = f32({2}, {1, 2}), b = f32({3}, {3, 4, 5}), c = f32({1}, {6});

TEST(Sequence, ConstructInsertEraseAt) {
  const Graph graph = parse(R"(graph "g" (%a: f32[2], %b: f32[n], %c: f32[1], %i: i64[]) {
    %s = sequence_construct {} (%a, %b)
    %t = sequence_insert {} (%s, %c, %i)
    %u = sequence_erase {} (%t)
    %at = sequence_at {} (%t, %i)
    %n = sequence_length {} (%t)
    return "t" = %t, "u" = %u, "at" = %at, "n" = %n
  })");
  EXPECT_EQ(type_of(graph, 0), "seq[3]<f32[?]>");
  EXPECT_EQ(type_of(graph, 1), "seq[2]<f32[?]>");
  EXPECT_EQ(type_of(graph, 2), "f32[@at.0]");
  const auto front = run(graph, {a, b, c, number(0)});
  EXPECT_EQ(front[0], Tensor::sequence({c, a, b}));
  EXPECT_EQ(front[1], Tensor::sequence({c, a}));
  EXPECT_EQ(front[2], c);
  EXPECT_EQ(front[3], number(3));
  EXPECT_EQ(run(graph, {a, b, c, number(2)})[0], Tensor::sequence({a, b, c}));
  // Before the last of two; then the last of three.
  const auto back = run(graph, {a, b, c, number(-1)});
  EXPECT_EQ(back[0], Tensor::sequence({a, c, b}));
  EXPECT_EQ(back[2], b);
  EXPECT_THROW(run(graph, {a, b, c, number(3)}), Error);
  EXPECT_THROW(run(graph, {a, b, c, number(-3)}), Error);
}

TEST(Sequence, AnEmptyOneTakesTheTypeOfItsFirstElement) {
  const Graph graph = parse(R"(graph "g" (%a: f32[2]) {
    %s = sequence_construct {element="f32[*]"} ()
    %t = sequence_insert {} (%s, %a)
    return "s" = %s, "t" = %t
  })");
  EXPECT_EQ(type_of(graph, 0), "seq[0]<f32[*]>");
  EXPECT_EQ(type_of(graph, 1), "seq[1]<f32[2]>");
  EXPECT_EQ(run(graph, {a})[1], Tensor::sequence({a}));
}

TEST(Sequence, Refused) {
  const auto refused = [](const std::string& nodes) {
    return error_of([&] { parse("graph \"g\" (%a: f32[2], %d: f64[2], %s: seq[n]<f32[*]>) {" + nodes + "return }"); });
  };
  EXPECT_NE(refused("%x = sequence_construct {} (%a, %d)").find("one type"), std::string::npos);
  EXPECT_NE(refused("%x = sequence_construct {} ()").find("needs a type"), std::string::npos);
  EXPECT_NE(refused("%x = pointwise {function=neg} (%s)").find("must be a tensor"), std::string::npos);
  EXPECT_NE(refused("%x = sequence_at {} (%a, %a)").find("must be a sequence"), std::string::npos);
  EXPECT_NE(refused("%i = sequence_length {} (%s) %x = sequence_at {} (%s, %i)").find("declare the type"),
            std::string::npos);
  EXPECT_NE(refused("%x = sequence_insert {} (%s, %d)").find("one type"), std::string::npos);
  EXPECT_NE(refused("%x = cast {to=seq} (%a)"), "");
}

TEST(Sequence, Split) {
  const Tensor x = f32({5, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  const auto split = [&](const ops::SplitToSequence& op, const std::vector<Tensor>& inputs) {
    return run_op(op, inputs, {}, true)[0];
  };
  const Tensor twos = split({0, true}, {x, number(2)});
  EXPECT_EQ(twos, Tensor::sequence({f32({2, 2}, {0, 1, 2, 3}), f32({2, 2}, {4, 5, 6, 7}), f32({1, 2}, {8, 9})}));
  EXPECT_EQ(split({1, false}, {x}), Tensor::sequence({f32({5}, {0, 2, 4, 6, 8}), f32({5}, {1, 3, 5, 7, 9})}));
  EXPECT_EQ(split({1, true}, {x}), Tensor::sequence({f32({5, 1}, {0, 2, 4, 6, 8}), f32({5, 1}, {1, 3, 5, 7, 9})}));
  EXPECT_EQ(split({0, true}, {x, Tensor::from_ints({0, 4, 1})}),
            Tensor::sequence({f32({0, 2}, {}), f32({4, 2}, {0, 1, 2, 3, 4, 5, 6, 7}), f32({1, 2}, {8, 9})}));
  const Tensor words = Tensor::of(DType::string, {2}, std::vector<std::string>{"x", "y"});
  EXPECT_EQ(split({0, false}, {words}).element(1), Tensor::of(DType::string, {}, std::vector<std::string>{"y"}));
  const Graph graph = parse(R"(graph "g" (%x: f32[n, 2], %k: i64[m]) {
    %s = split_to_sequence {} (%x, %k)
    return %s
  })");
  EXPECT_EQ(type_of(graph), "seq[m]<f32[?, 2]>");
  for (const auto& sizes : {std::vector<int64_t>{2, 2}, {6}, {7, -2}})
    EXPECT_THROW(run(graph, {x, Tensor::from_ints(sizes)}), Error);
}

TEST(Sequence, Concat) {
  const Graph graph = parse(R"(graph "g" (%s: seq[n]<f32[?, 2]>, %t: seq[m]<f32[2, 2]>) {
    %a = concat_from_sequence {axis=0} (%s)
    %b = concat_from_sequence {axis=1, new_axis=true} (%t)
    %c = concat_from_sequence {axis=1} (%t)
    return "a" = %a, "b" = %b, "c" = %c
  })");
  EXPECT_EQ(type_of(graph, 0), "f32[@a.0, 2]");
  EXPECT_EQ(type_of(graph, 1), "f32[2, m, 2]");
  EXPECT_EQ(type_of(graph, 2), "f32[2, 2*m]");
  const Tensor square = f32({2, 2}, {1, 2, 3, 4}), row = f32({1, 2}, {5, 6});
  const auto out = run(graph, {Tensor::sequence({square, row}), Tensor::sequence({square, square})});
  EXPECT_EQ(out[0], f32({3, 2}, {1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(out[1], f32({2, 2, 2}, {1, 2, 1, 2, 3, 4, 3, 4}));
  EXPECT_EQ(out[2], f32({2, 4}, {1, 2, 1, 2, 3, 4, 3, 4}));
  EXPECT_THROW(run(graph, {Tensor::sequence({}), Tensor::sequence({square})}), Error);
  EXPECT_THROW(run(graph, {Tensor::sequence({f32({1, 3}, {1, 2, 3})}), Tensor::sequence({square})}), Error);
}

TEST(Sequence, MapPairsElementsAndSharesTensors) {
  const Graph graph = parse(R"(graph "g" (%s: seq[n]<f32[?]>, %t: seq[m]<f32[?]>, %k: f32[]) {
    %r = sequence_map {count=2} (%s, %t, %k)
      graph "body" (%x: f32[@body.x], %y: f32[@body.y], %z: f32[]) {
        %p = pointwise {function=mul} (%x, %z)
        %q = concat {axis=0} (%p, %y)
        return %q
      }
    return %r
  })");
  EXPECT_EQ(type_of(graph), "seq[n]<f32[?]>");
  const Tensor k = Tensor::scalar(DType::f32, 10);
  EXPECT_EQ(run(graph, {Tensor::sequence({a, c}), Tensor::sequence({c, a}), k})[0],
            Tensor::sequence({f32({3}, {10, 20, 6}), f32({3}, {60, 1, 2})}));
  EXPECT_EQ(run(graph, {Tensor::sequence({}), Tensor::sequence({}), k})[0], Tensor::sequence({}));
  EXPECT_THROW(run(graph, {Tensor::sequence({a}), Tensor::sequence({}), k}), Error);
}

// What is put behind a sequence shares its memory: two continuations of one sequence do not see each other.
TEST(Sequence, ContinuationsAreTheirOwn) {
  const Graph insert = parse(R"(graph "g" (%s: seq[k]<f32[?]>, %x: f32[m]) {
    %t = sequence_insert {} (%s, %x)
    return "t" = %t
  })");
  const auto appended = [&](const Tensor& sequence, const Tensor& x) { return run(insert, {sequence, x})[0]; };
  std::vector<Tensor> lengths = {Tensor::sequence({})};
  for (int i = 0; i < 20; ++i) lengths.push_back(appended(lengths.back(), i % 2 == 0 ? a : b));
  for (size_t i = 0; i < lengths.size(); ++i) {
    const Tensor other = appended(lengths[i], c), another = appended(lengths[i], b);
    ASSERT_EQ(other.size(), static_cast<int64_t>(i) + 1);
    EXPECT_EQ(other.element(static_cast<int64_t>(i)), c);
    EXPECT_EQ(another.element(static_cast<int64_t>(i)), b);
    for (size_t k = 0; k < i; ++k) EXPECT_EQ(other.element(static_cast<int64_t>(k)), k % 2 == 0 ? a : b);
  }
}

// A loop that put 10^5 tensors behind each other copied and looked at all of them in each turn: for minutes.
TEST(Sequence, InsertionsCountWhatTheyCopy) {
  const auto taken = [](const std::string& position) {
    const Graph insert = parse(
        "graph \"g\" (%s: seq[k]<f32[1]>, %x: f32[1], %zero: i64[]) {\n%t = sequence_insert {} "
        "(%s, %x" +
        position + ")\nreturn \"t\" = %t\n}");
    const Cancellation cancellation;
    const auto budget = std::make_shared<Budget>(1e15, size_t{1} << 32, "more work", "more memory");
    const WorkScope scope(cancellation, budget);
    Tensor sequence = Tensor::sequence({});
    for (int64_t i = 0; i < 2000; ++i) sequence = run(insert, {sequence, c, number(0)})[0];
    EXPECT_EQ(sequence.size(), 2000);
    return budget->operations_taken() - 2000 * 2e5;
  };
  EXPECT_LT(taken(""), 5000 * operations_of_an_object);
  EXPECT_NEAR(taken(", %zero"), 2000 * 1999 / 2 * operations_of_an_object, 1e3);
}

TEST(Optional, HasAndGet) {
  const Graph graph = parse(R"(graph "g" (%o: opt<f32[?]>) {
    %h = optional_has_element {} (%o)
    return "h" = %h
  })");
  EXPECT_EQ(run(graph, {Tensor::optional(a)})[0], Tensor::scalar(DType::boolean, 1));
  EXPECT_EQ(run(graph, {Tensor::optional(Tensor())})[0], Tensor::scalar(DType::boolean, 0));
  const Graph get = parse(R"(graph "g" (%o: opt<seq[?]<f32[*]>>) {
    %s = optional_get_element {} (%o)
    %again = optional {} (%s)
    %none = optional {element="f32[3]"} ()
    return "s" = %s, "again" = %again, "none" = %none
  })");
  EXPECT_EQ(type_of(get, 0), "seq[@s.0]<f32[*]>");
  EXPECT_EQ(type_of(get, 1), "opt<seq[?]<f32[*]>>");
  const Tensor sequence = Tensor::sequence({a, b});
  EXPECT_EQ(run(get, {Tensor::optional(sequence)})[1], Tensor::optional(sequence));
  EXPECT_EQ(run(get, {Tensor::optional(sequence)})[2], Tensor::optional(Tensor()));
  EXPECT_THROW(run(get, {Tensor::optional(Tensor())}), Error);
  EXPECT_THROW(run(get, {Tensor::optional(a)}), Error);
}

}  // namespace
}  // namespace camshaft::sequence_test
