#include "ir/ops/move.h"

#include <functional>
#include <numeric>

#include "reference/single_op.h"
#include "test_random.h"

namespace camshaft::ops::move_test {
namespace {

const DType every_size[] = {DType::u8, DType::bf16, DType::f32, DType::i64, DType::i4, DType::string};

Tensor any_tensor(Random& random, DType dtype, const Dims& dims) {
  Tensor t(dtype, dims);
  if (dtype == DType::string) {
    for (int64_t i = 0; i < t.size(); ++i)
      t.as_mutable<std::string>()[i] = "a string too long for the small buffer " + std::to_string(random.next());
    return t;
  }
  for (size_t i = 0; i < t.bytes(); ++i) t.mutable_data()[i] = static_cast<std::byte>(random.next());
  if (dtype == DType::i4 && t.size() % 2) t.mutable_data()[t.bytes() - 1] &= std::byte{15};
  return t;
}

// Element i as text, whatever the dtype.
std::string element(const Tensor& t, int64_t i) {
  if (t.dtype() == DType::string) return t.as<std::string>()[i];
  if (bit_width(t.dtype()) == 4) return std::to_string((t.as<uint8_t>()[i / 2] >> (i % 2 * 4)) & 15);
  const size_t width = byte_size(t.dtype(), 1);
  return std::string(reinterpret_cast<const char*>(t.data()) + static_cast<size_t>(i) * width, width);
}

int64_t flat(const Dims& dims, const Dims& at) {
  int64_t i = 0;
  for (size_t a = 0; a < dims.size(); ++a) i = i * dims[a] + at[a];
  return i;
}

// Holds out[at] to x[source(at)] everywhere; a source of {-1, …} is not looked at.
void expect_moved(const Tensor& x, const Tensor& out, const std::function<Dims(const Dims&)>& source) {
  Dims at(out.dims().size(), 0);
  for (int64_t i = 0; i < out.size(); ++i) {
    const Dims from = source(at);
    if (from.empty() || from[0] >= 0) {
      ASSERT_EQ(element(out, i), element(x, flat(x.dims(), from))) << to_string(out.dims()) << to_string(at);
    }
    for (size_t a = at.size(); a-- > 0;) {
      if (++at[a] < out.dims()[a]) break;
      at[a] = 0;
    }
  }
}

Dims random_dims(Random& random, int64_t rank, int64_t largest) {
  Dims dims;
  for (int64_t a = 0; a < rank; ++a) dims.push_back(random.integer(1, largest));
  return dims;
}

TEST(Reshape, KnownAndDataShapes) {
  const Dim n = Dim::symbol("n");
  const Tensor x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(run_op(Reshape{{n, 2}}, {x}, {{"n", 3}})[0], f32({3, 2}, {1, 2, 3, 4, 5, 6}));
  const Op data{Reshape{{Dim::symbol("@a"), Dim::symbol("@b")}}};
  EXPECT_EQ(run_op(data, {x, i64({2}, {-1, 2})})[0].dims(), (Dims{3, 2}));
  EXPECT_EQ(run_op(data, {x, i64({2}, {0, 3})})[0].dims(), (Dims{2, 3}));
  EXPECT_NE(error_of([&] { run_op(data, {x, i64({2}, {-1, -1})}); }).find("more than one"), std::string::npos);
  EXPECT_NE(error_of([&] { run_op(data, {x, i64({2}, {-1, 4})}); }).find("no solution"), std::string::npos);
  EXPECT_NE(error_of([&] { run_op(data, {x, i64({2}, {4, 4})}); }).find("6 elements against 16"), std::string::npos);
  const Tensor empty(DType::f32, {0, 3});
  const Op literal{Reshape{{0, Dim::symbol("@b")}}};
  EXPECT_EQ(run_op(literal, {Tensor(DType::f32, {3, 0}), i64({2}, {0, 7})})[0].dims(), (Dims{0, 7}));
}

TEST(Transpose, RandomShapes) {
  Random random = test_random();
  for (int round = 0; round < 60; ++round) {
    const DType dtype = every_size[round % 6];
    const int64_t rank = random.integer(0, 5);
    const Dims dims = random_dims(random, rank, rank < 3 ? 70 : 7);
    std::vector<int64_t> permutation(static_cast<size_t>(rank));
    std::iota(permutation.begin(), permutation.end(), 0);
    for (size_t i = permutation.size(); i-- > 1;)
      std::swap(permutation[i], permutation[static_cast<size_t>(random.integer(0, static_cast<int64_t>(i)))]);
    const Tensor x = any_tensor(random, dtype, dims);
    SCOPED_TRACE("round " + std::to_string(round));
    const Tensor out = run_op(Transpose{permutation}, {x})[0];
    expect_moved(x, out, [&](const Dims& at) {
      Dims from(at.size());
      for (size_t i = 0; i < at.size(); ++i) from[static_cast<size_t>(permutation[i])] = at[i];
      return from;
    });
  }
}

TEST(Transpose, LargeEnoughForAllThreads) {
  Random random = test_random();
  const Tensor x = any_tensor(random, DType::f32, {3, 257, 131});
  for (const std::vector<int64_t>& p : {std::vector<int64_t>{0, 2, 1}, {2, 0, 1}, {2, 1, 0}, {1, 2, 0}, {1, 0, 2}}) {
    const Tensor out = run_op(Transpose{p}, {x})[0];
    expect_moved(x, out, [&](const Dims& at) {
      Dims from(3);
      for (size_t i = 0; i < 3; ++i) from[static_cast<size_t>(p[i])] = at[i];
      return from;
    });
  }
}

TEST(Transpose, Errors) {
  const Tensor x(DType::f32, {2, 3});
  EXPECT_NE(error_of([&] { run_op(Transpose{{0}}, {x}); }).find("1 axes"), std::string::npos);
  EXPECT_NE(error_of([&] { run_op(Transpose{{0, 0}}, {x}); }).find("twice"), std::string::npos);
  EXPECT_NE(error_of([&] { run_op(Transpose{{0, 2}}, {x}); }).find("axis 2"), std::string::npos);
}

TEST(Expand, BothWays) {
  EXPECT_EQ(run_op(Expand{{2, 1}}, {f32({3}, {1, 2, 3})})[0], f32({2, 3}, {1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(run_op(Expand{{3}}, {f32({2, 1}, {1, 2})})[0], f32({2, 3}, {1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(run_op(Expand{{2}}, {f32({}, {7})})[0], f32({2}, {7, 7}));
  EXPECT_EQ(run_op(Expand{{0}}, {f32({1}, {7})})[0].dims(), (Dims{0}));
  const Op data{Expand{{Dim::symbol("@a"), Dim::symbol("@b")}}};
  EXPECT_EQ(run_op(data, {f32({3}, {1, 2, 3}), i64({2}, {2, 1})})[0], f32({2, 3}, {1, 2, 3, 1, 2, 3}));
  EXPECT_NE(error_of([&] {
              run_op(data, {f32({3}, {1, 2, 3}), i64({2}, {2, 2})});
            }).find("cannot expand"),
            std::string::npos);
  EXPECT_NE(error_of([] { run_op(Expand{{2}}, {f32({3}, {1, 2, 3})}); }).find("broadcast"), std::string::npos);
}

TEST(Expand, RandomShapes) {
  Random random = test_random();
  for (int round = 0; round < 60; ++round) {
    const Dims wanted = random_dims(random, random.integer(1, 4), 9);
    Dims dims(wanted.begin() + random.integer(0, static_cast<int64_t>(wanted.size()) - 1), wanted.end());
    for (int64_t& d : dims)
      if (random.integer(0, 1)) d = 1;
    const Tensor x = any_tensor(random, every_size[round % 6], dims);
    SCOPED_TRACE("round " + std::to_string(round));
    const Tensor out = run_op(Expand{Shape(wanted.begin(), wanted.end())}, {x})[0];
    ASSERT_EQ(out.dims(), wanted);
    expect_moved(x, out, [&](const Dims& at) {
      Dims from(at.end() - static_cast<int64_t>(dims.size()), at.end());
      for (size_t i = 0; i < dims.size(); ++i)
        if (dims[i] == 1) from[i] = 0;
      return from;
    });
  }
}

TEST(Expand, SymbolsThatOnlyRunningBinds) {
  Graph graph;
  const Dim n = Dim::symbol("n"), s = Dim::symbol("@shape.0");
  const ValueId shape = graph.add_input("shape", {DType::i64, {1}});
  const auto expanded = [&](const Dim& x, const Dim& to) {
    return graph.shape(graph.add(Expand{{to}}, {graph.add_input("x", {DType::f32, {x}}), shape}, "y"))[0];
  };
  EXPECT_EQ(expanded(1, s), s);
  EXPECT_EQ(expanded(5, s), Dim(5));
  EXPECT_TRUE(expanded(n, s).as_symbol().has_value());  // a broadcast of both could not be bound
  const ValueId x = graph.add_input("x", {DType::f32, {n}});
  EXPECT_EQ(graph.shape(graph.add(Expand{{Dim::symbol("m")}}, {x}, "y"))[0], broadcast(n, Dim::symbol("m")));
}

TEST(Concat, RandomShapes) {
  Random random = test_random();
  for (int round = 0; round < 60; ++round) {
    const Dims base = random_dims(random, random.integer(1, 4), 8);
    const auto axis = static_cast<size_t>(random.integer(0, static_cast<int64_t>(base.size()) - 1));
    std::vector<Tensor> parts;
    for (int64_t i = 0, n = random.integer(1, 4); i < n; ++i) {
      Dims dims = base;
      dims[axis] = random.integer(0, 5);
      parts.push_back(any_tensor(random, every_size[round % 6], dims));
    }
    SCOPED_TRACE("round " + std::to_string(round));
    const Tensor out = run_op(Concat{static_cast<int64_t>(axis)}, parts)[0];
    int64_t offset = 0;
    for (const Tensor& part : parts) {
      const int64_t size = part.dims()[axis];
      expect_moved(part, out, [&](const Dims& at) {
        Dims from = at;
        from[axis] -= offset;
        return from[axis] >= 0 && from[axis] < size ? from : Dims(at.size(), -1);
      });
      offset += size;
    }
    EXPECT_EQ(out.dims()[axis], offset);
  }
}

TEST(Slice, RandomRanges) {
  Random random = test_random();
  for (int round = 0; round < 90; ++round) {
    const Dims dims = random_dims(random, random.integer(1, 4), 9);
    Slice slice;
    Dims first(dims.size(), 0), step(dims.size(), 1);
    for (size_t a = 0; a < dims.size(); ++a) {
      if (random.integer(0, 2) == 0) continue;
      first[a] = random.integer(0, dims[a] - 1);
      do step[a] = random.integer(-3, 3);
      while (step[a] == 0);
      const int64_t room = step[a] > 0 ? (dims[a] - 1 - first[a]) / step[a] : first[a] / -step[a];
      slice.axes.push_back(static_cast<int64_t>(a));
      slice.starts.emplace_back(first[a]);
      slice.counts.emplace_back(random.integer(0, room + 1));
      slice.steps.push_back(step[a]);
    }
    const Tensor x = any_tensor(random, every_size[round % 6], dims);
    SCOPED_TRACE("round " + std::to_string(round));
    expect_moved(x, run_op(slice, {x})[0], [&](const Dims& at) {
      Dims from = at;
      for (size_t a = 0; a < at.size(); ++a) from[a] = first[a] + at[a] * step[a];
      return from;
    });
  }
}

TEST(Slice, Errors) {
  const Tensor x(DType::f32, {4});
  const Dim n = Dim::symbol("n");
  EXPECT_NE(error_of([&] { run_op(Slice{{0}, {2}, {3}, {1}}, {x}); }).find("the axis has 4"), std::string::npos);
  EXPECT_NE(error_of([&] {
              run_op(Slice{{0}, {n}, {3}, {1}}, {x}, {{"n", 2}});
            }).find("the axis has 4"),
            std::string::npos);
  EXPECT_NE(error_of([&] { run_op(Slice{{0}, {1}, {3}, {-1}}, {x}); }).find("in steps of -1"), std::string::npos);
  EXPECT_NE(error_of([&] { run_op(Slice{{0, 0}, {1, 1}, {1, 1}, {1, 1}}, {x}); }).find("twice"), std::string::npos);
  EXPECT_NE(error_of([&] { run_op(Slice{{0}, {1}, {1}, {0}}, {x}); }).find("step"), std::string::npos);
  EXPECT_NE(error_of([&] { run_op(Slice{{0}, {1}, {INT64_MAX}, {INT64_MAX}}, {x}); }).size(), 0u);
}

TEST(Pad, ModesAsNumpy) {
  // numpy.pad([1, 2, 3], (5, 4), mode): reflect, edge, wrap.
  const Tensor x = f32({3}, {1, 2, 3});
  EXPECT_EQ(run_op(Pad{PadMode::reflect, {5, 4}}, {x})[0], f32({12}, {2, 1, 2, 3, 2, 1, 2, 3, 2, 1, 2, 3}));
  EXPECT_EQ(run_op(Pad{PadMode::edge, {5, 4}}, {x})[0], f32({12}, {1, 1, 1, 1, 1, 1, 2, 3, 3, 3, 3, 3}));
  EXPECT_EQ(run_op(Pad{PadMode::wrap, {5, 4}}, {x})[0], f32({12}, {2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3, 1}));
  EXPECT_EQ(run_op(Pad{PadMode::constant, {1, 2}}, {x, f32({}, {9})})[0], f32({6}, {9, 1, 2, 3, 9, 9}));
  EXPECT_EQ(run_op(Pad{PadMode::constant, {-1, 2}}, {x})[0], f32({4}, {2, 3, 0, 0}));
  EXPECT_EQ(run_op(Pad{PadMode::reflect, {-1, 1}}, {x})[0], f32({3}, {2, 3, 2}));
  EXPECT_EQ(run_op(Pad{PadMode::reflect, {2, 0}}, {f32({1}, {4})})[0], f32({3}, {4, 4, 4}));
  EXPECT_EQ(run_op(Pad{PadMode::constant, {1, 0}}, {f32({0}, {}), f32({}, {9})})[0], f32({1}, {9}));
}

TEST(Pad, RandomConstantPads) {
  Random random = test_random();
  for (int round = 0; round < 60; ++round) {
    const Dims dims = random_dims(random, random.integer(1, 4), 6);
    const DType dtype = every_size[round % 6];
    Pad pad;
    for (size_t a = 0; a < 2 * dims.size(); ++a) pad.pads.emplace_back(random.integer(-(dims[a % dims.size()] / 2), 3));
    const Tensor x = any_tensor(random, dtype, dims), fill = any_tensor(random, dtype, {});
    SCOPED_TRACE("round " + std::to_string(round));
    const Tensor out = run_op(pad, {x, fill})[0];
    int64_t inside = 0;
    expect_moved(x, out, [&](const Dims& at) {
      Dims from = at;
      bool in = true;
      for (size_t a = 0; a < at.size(); ++a) {
        from[a] -= pad.pads[a].value();
        in = in && from[a] >= 0 && from[a] < dims[a];
      }
      if (in) {
        ++inside;
      } else {
        EXPECT_EQ(element(out, flat(out.dims(), at)), element(fill, 0));
      }
      return in ? from : Dims(at.size(), -1);
    });
  }
}

TEST(Pad, AnEmptyAxisThatStaysEmpty) {
  EXPECT_EQ(run_op(Pad{PadMode::constant, {1, -1}}, {f32({0}, {})})[0].dims(), (Dims{0}));
  EXPECT_EQ(run_op(Pad{PadMode::edge, {-2, 2}}, {f32({0}, {})})[0].dims(), (Dims{0}));
  EXPECT_EQ(run_op(Pad{PadMode::constant, {1, 0, -1, 2}}, {f32({0, 2}, {})})[0].dims(), (Dims{0, 4}));
}

TEST(Pad, Errors) {
  const Tensor x(DType::f32, {3});
  EXPECT_NE(error_of([&] { run_op(Pad{PadMode::constant, {1}}, {x}); }).find("two an axis"), std::string::npos);
  EXPECT_NE(error_of([&] { run_op(Pad{PadMode::constant, {-2, -2}}, {x}); }).find("crop more"), std::string::npos);
  EXPECT_NE(error_of([&] { run_op(Pad{PadMode::constant, {-4, 2}}, {x}); }).find("crop more"), std::string::npos);
  EXPECT_NE(error_of([&] {
              run_op(Pad{PadMode::edge, {1, 1}}, {f32({0}, {})});
            }).find("no element"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              run_op(Pad{PadMode::constant, {1, 1}}, {x, i64({}, {1})});
            }).find("i64"),
            std::string::npos);
}

}  // namespace
}  // namespace camshaft::ops::move_test
