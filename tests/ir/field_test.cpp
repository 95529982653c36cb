// Reflection: structs to named fields and back, through text.
#include "ir/field.h"

#include <gtest/gtest.h>

#include <limits>

#include "test_ops.h"

namespace camshaft::field_test {
namespace {

using test_ops::Everything;
using test_ops::Rounding;

Everything sample() {
  Everything e;
  e.integer = -5;
  e.small = 200;
  e.real = 0.1f;
  e.wide = 1e-300;
  e.flag = true;
  e.text = "a \"b\"";
  e.dtype = DType::bf16;
  e.rounding = Rounding::to_even;
  e.integers = {1, 2};
  e.reals = {0.5};
  e.texts = {"x", ""};
  e.dim = Dim::symbol("n") * 2;
  e.shape = {Dim::symbol("n"), 3};
  return e;
}

const FieldValue& field(const Fields& fields, std::string_view name) {
  for (const auto& [key, value] : fields)
    if (key == name) return value;
  throw std::out_of_range(std::string(name));
}

TEST(Field, RoundTrip) {
  EXPECT_EQ(from_fields<Everything>("everything", to_fields(sample())), sample());
  EXPECT_EQ(from_fields<Everything>("everything", to_fields(Everything())), Everything());
  EXPECT_EQ(from_fields<Everything>("everything", {}), Everything()) << "absent fields keep their defaults";
}

TEST(Field, KeptInOrderAndByName) {
  const Fields fields = to_fields(sample());
  EXPECT_EQ(fields.front().first, "integer");
  EXPECT_EQ(fields.back().first, "shape");
  EXPECT_EQ(std::get<std::string>(field(fields, "rounding")), "to even");
  EXPECT_EQ(std::get<std::string>(field(fields, "dtype")), "bf16");
  EXPECT_EQ(std::get<int64_t>(field(fields, "small")), 200);
  EXPECT_EQ(std::get<double>(field(fields, "real")), static_cast<double>(0.1f));
}

TEST(Field, Text) {
  EXPECT_EQ(to_string(FieldValue(int64_t{3})), "3");
  EXPECT_EQ(to_string(FieldValue(0.5)), "0.5");
  EXPECT_EQ(to_string(FieldValue(2.0)), "2.0") << "not to be taken for an integer";
  EXPECT_EQ(to_string(FieldValue(1e20)), "1e+20");
  EXPECT_EQ(to_string(FieldValue(std::numeric_limits<double>::infinity())), "inf");
  EXPECT_EQ(to_string(FieldValue(true)), "true");
  EXPECT_EQ(to_string(FieldValue(std::string("a\n\"\\"))), "\"a\\x0a\\\"\\\\\"");
  EXPECT_EQ(to_string(FieldValue(std::vector<int64_t>{1, 2})), "[1, 2]");
  EXPECT_EQ(to_string(FieldValue(std::vector<double>{1, 2.5})), "[1.0, 2.5]");
  EXPECT_EQ(to_string(FieldValue(std::vector<std::string>{"a", "b"})), "[\"a\", \"b\"]");
  EXPECT_EQ(to_string(FieldValue(Dim::symbol("n") + 1)), "dim(n + 1)");
  EXPECT_EQ(to_string(FieldValue(Shape{Dim::symbol("n"), 3})), "shape(n, 3)");
  EXPECT_EQ(to_string(FieldValue(Shape{})), "shape()");
}

TEST(Field, WholeNumbersWhereRealsAndDimsAreMeant) {
  const auto e = from_fields<Everything>("everything", {{"wide", int64_t{2}},
                                                        {"reals", std::vector<int64_t>{1, 2}},
                                                        {"dim", int64_t{7}},
                                                        {"shape", std::vector<int64_t>{2, 3}},
                                                        {"texts", std::vector<int64_t>{}}});
  EXPECT_EQ(e.wide, 2);
  EXPECT_EQ(e.reals, (std::vector<double>{1, 2}));
  EXPECT_EQ(e.dim, Dim(7));
  EXPECT_EQ(e.shape, (Shape{2, 3}));
}

TEST(Field, Errors) {
  const auto error = [](Fields fields) -> std::string {
    try {
      from_fields<Everything>("everything", fields);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
      return e.what();
    }
    return "no error";
  };
  const auto expect = [&](const char* name, FieldValue value, const std::string& what) {
    const std::string message = error({{name, std::move(value)}});
    EXPECT_NE(message.find(what), std::string::npos) << message;
  };
  expect("typo", int64_t{1}, "'everything' has no field 'typo'; it has integer, small,");
  expect("integer", 1.5, "field 'integer' is 1.5: expected an integer");
  expect("integer", true, "field 'integer' is true");
  expect("small", int64_t{256}, "field 'small' is 256: expected an integer in range");
  expect("small", int64_t{-1}, "field 'small' is -1");
  expect("real", std::string("x"), "expected a number");
  expect("flag", int64_t{1}, "expected true or false");
  expect("text", int64_t{1}, "field 'text' is 1");
  expect("dtype", std::string("f33"), "unknown dtype 'f33'");
  expect("dtype", int64_t{1}, "expected a name");
  expect("rounding", std::string("sideways"), "field 'rounding' is \"sideways\"");
  expect("integers", std::vector<double>{1.5}, "field 'integers' is [1.5]");
  expect("shape", std::vector<std::string>{"n"}, "field 'shape' is [\"n\"]");
  EXPECT_NE(error({{"flag", true}, {"flag", false}}).find("field 'flag' of 'everything' stands twice"),
            std::string::npos);
}

TEST(Op, ValueSemantics) {
  const Op a = sample(), b = sample(), c = Everything(), d = test_ops::Add();
  EXPECT_TRUE(a == b);
  EXPECT_FALSE(a == c);
  EXPECT_FALSE(c == d);
  EXPECT_EQ(a.name(), "everything");
  EXPECT_NE(a.as<Everything>(), nullptr);
  EXPECT_EQ(a.as<test_ops::Add>(), nullptr);
  EXPECT_EQ(to_string(d), "add");
  EXPECT_EQ(to_string(Op(test_ops::MatMul{true})), "matmul {transpose_b=true}");
}

TEST(Op, Registry) {
  const OpRegistry ops = test_ops::registry();
  EXPECT_TRUE(ops.make("everything", to_fields(sample())) == Op(sample()));
  EXPECT_EQ(ops.names(), (std::vector<std::string>{"add", "call", "everything", "matmul", "shape_of", "split"}));
  EXPECT_THROW(ops.make("nothing", {}), Error);
  EXPECT_THROW(ops.make("add", {{"x", true}}), Error);
}

}  // namespace
}  // namespace camshaft::field_test
