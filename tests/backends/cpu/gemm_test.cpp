// The packed product against a double-precision triple loop: every tail, every epilogue, every instruction set.
#include "backends/cpu/kernels/gemm/gemm.h"

#include <algorithm>

#include "backends/cpu/kernel_test_util.h"
#include "base/thread_pool.h"

namespace camshaft::cpu::gemm_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kGuard = -77.0f;

const Activation kLeaky{.core = Activation::Core::slope, .gated = true, .lo = 0.25f, .hi = 1.0f};

struct Case {
  int64_t m, n, k;
  int64_t lda_gap = 0, ldc_gap = 0;
  bool transposed = false, bias = false, callback = false, activation = false;
  int residual = 0;  // 0 none, 1 own memory, 2 C itself
  int more = 0;      // further residuals
  float lo = -kInfinity, hi = kInfinity;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.m << "x" << c.n << "x" << c.k << " lda+" << c.lda_gap << " ldc+" << c.ldc_gap << " transposed "
             << c.transposed << " bias " << c.bias << " residual " << c.residual << "+" << c.more << " callback "
             << c.callback << " clamp " << c.lo << ".." << c.hi;
}

struct Doubler {
  float* c;
  int64_t ldc;
  static void call(void* context, int64_t row0, int64_t rows, int64_t col0, int64_t cols) {
    auto* self = static_cast<Doubler*>(context);
    for (int64_t i = row0; i < row0 + rows; ++i) {
      for (int64_t j = col0; j < col0 + cols; ++j) self->c[i * self->ldc + j] *= 2.0f;
    }
  }
};

void check(const Case& s, RandomData& random, ThreadPool& pool, float poison = 0.0f) {
  SCOPED_TRACE(testing::Message() << s << " threads " << pool.size());
  const int64_t lda = s.k + s.lda_gap, ldc = s.n + s.ldc_gap;
  std::vector<float> a = random.vector(s.m * lda), b = random.vector(s.k * s.n), bias = random.vector(s.n);
  std::vector<float> residual = random.vector(s.m * ldc), c(static_cast<size_t>(s.m * ldc), kGuard);
  if (poison != 0.0f && !a.empty()) {
    for (int i = 0; i < 3; ++i) {
      a[static_cast<size_t>(random.integer(0, s.m * lda - 1))] = poison;
      b[static_cast<size_t>(random.integer(0, s.k * s.n - 1))] = poison;
    }
  }
  if (s.residual == 2) c = residual;
  const int64_t k_stride = s.transposed ? 1 : s.n, n_stride = s.transposed ? s.k : 1;

  const PackedLayout layout = packed_layout(s.k, s.n);
  ASSERT_EQ(packed_b_bytes(s.k, s.n), layout.floats() * 4);
  std::vector<float> packed(static_cast<size_t>(layout.floats()), kGuard);
  pack_b(layout, b.data(), k_stride, n_stride, packed.data());
  {
    std::vector<float> back(b.size(), kGuard);
    unpack_b(layout, packed.data(), back.data(), k_stride, n_stride);
    ASSERT_TRUE(std::equal(b.begin(), b.end(), back.begin(),
                           [](float x, float y) { return x == y || (std::isnan(x) && std::isnan(y)); }));
  }

  GemmArgs args;
  args.m = s.m, args.n = s.n, args.k = s.k;
  args.a = a.data(), args.lda = lda;
  args.packed_b = packed.data();
  args.c = c.data(), args.ldc = ldc;
  args.epilogue.lo = s.lo, args.epilogue.hi = s.hi;
  if (s.bias) args.epilogue.bias = bias.data();
  if (s.residual) args.epilogue.residual = s.residual == 2 ? c.data() : residual.data();
  args.epilogue.residual_ld = ldc;
  std::vector<std::vector<float>> more;
  for (int i = 0; i < s.more; ++i) {
    more.push_back(random.vector(s.m * (s.n + i)));
    args.epilogue.more_residuals[static_cast<size_t>(i)] = {more.back().data(), s.n + i};
  }
  const std::vector<float> addend = random.vector(s.m * ldc);
  if (s.activation) args.epilogue.activation = &kLeaky, args.epilogue.addend = addend.data();
  args.epilogue.addend_ld = ldc;
  Doubler doubler{c.data(), ldc};
  if (s.callback) args.epilogue.callback = Doubler::call, args.epilogue.context = &doubler;
  Workspace workspace(gemm_workspace_bytes(s.m, s.n, s.k, pool.size()));
  gemm(args, pool, workspace.get());

  for (int64_t i = 0; i < s.m; ++i) {
    for (int64_t j = 0; j < ldc; ++j) {
      const float actual = c[static_cast<size_t>(i * ldc + j)];
      if (j >= s.n) {
        ASSERT_EQ(actual, s.residual == 2 ? residual[static_cast<size_t>(i * ldc + j)] : kGuard) << "gap written";
        continue;
      }
      double sum = 0, scale = 0;
      for (int64_t k = 0; k < s.k; ++k) {
        const double x = a[static_cast<size_t>(i * lda + k)], y = b[static_cast<size_t>(k * k_stride + j * n_stride)];
        sum += x * y;
        scale += std::fabs(x * y);
      }
      const auto add = [&](double x) {
        sum += x;
        scale += std::fabs(x);
      };
      if (s.bias) add(bias[static_cast<size_t>(j)]);
      if (s.residual) add(residual[static_cast<size_t>(i * ldc + j)]);
      for (int r = 0; r < s.more; ++r) add(more[static_cast<size_t>(r)][static_cast<size_t>(i * (s.n + r) + j)]);
      if (!std::isnan(sum)) sum = std::clamp<double>(sum, s.lo, s.hi);
      if (s.activation) {
        sum = activation_reference(kLeaky, sum);
        add(addend[static_cast<size_t>(i * ldc + j)]);
      }
      if (s.callback) sum *= 2;
      ASSERT_TRUE(close_enough(actual, sum, 2 * scale, s.k + 3 + s.more))
          << i << "," << j << ": " << actual << " for " << sum;
    }
  }
}

class Gemm : public testing::Test {
 protected:
  RandomData random_;
};

TEST_F(Gemm, EveryTileHeightAndColumnTail) {
  ThreadPool pool(1);
  for_each_target([&] {
    for (int64_t m = 1; m <= 21; ++m) check({.m = m, .n = random_.integer(1, 200), .k = 9}, random_, pool);
    for (int64_t n = 1; n <= 200; n += random_.integer(1, 3)) check({.m = 7, .n = n, .k = 5}, random_, pool);
    for (int64_t k = 1; k <= 20; ++k) check({.m = 13, .n = 65, .k = k}, random_, pool);
  });
}

TEST_F(Gemm, RandomShapesAndEpilogues) {
  for (int threads = 1; threads <= 3; ++threads) {
    ThreadPool pool(threads);
    for_each_target([&] {
      for (int i = 0; i < 60; ++i) {
        Case s{random_.integer(1, 260), random_.integer(1, 200), random_.integer(1, 400)};
        if (random_.integer(0, 3) == 0) s.m = random_.integer(1, 24), s.k = random_.integer(1, 1000);
        if (random_.integer(0, 3) == 0) s.m = 1, s.n = random_.integer(1, 900);
        s.lda_gap = random_.integer(0, 2) * random_.integer(0, 5);
        s.ldc_gap = random_.integer(0, 1) * random_.integer(0, 5);
        s.transposed = random_.coin(), s.bias = random_.coin(), s.callback = random_.coin();
        s.activation = random_.coin();
        s.residual = static_cast<int>(random_.integer(0, 2));
        s.more = static_cast<int>(random_.integer(0, kMoreResiduals));
        if (random_.coin()) s.lo = 0.0f;
        if (random_.coin()) s.hi = 0.5f;
        check(s, random_, pool);
      }
    });
  }
}

// All that may follow the sums, of so few products that B stays in registers.
TEST_F(Gemm, FewProductsAndEpilogues) {
  for (int threads = 1; threads <= 3; ++threads) {
    ThreadPool pool(threads);
    for_each_target([&] {
      for (int i = 0; i < 60; ++i) {
        Case s{random_.integer(1, 300), random_.integer(1, i % 3 ? 20 : 300), random_.integer(1, 18)};
        s.lda_gap = random_.integer(0, 2) * random_.integer(0, 5);
        s.ldc_gap = random_.integer(0, 1) * random_.integer(0, 5);
        s.transposed = random_.coin(), s.bias = random_.coin(), s.callback = random_.coin();
        s.activation = random_.coin();
        s.residual = static_cast<int>(random_.integer(0, 2));
        s.more = static_cast<int>(random_.integer(0, 3) == 0);
        if (random_.coin()) s.lo = 0.0f;
        if (random_.coin()) s.hi = 0.5f;
        check(s, random_, pool);
      }
    });
  }
}

// Taken as dot products where the sums are long enough.
TEST_F(Gemm, FewColumns) {
  for (int threads = 1; threads <= 2; ++threads) {
    ThreadPool pool(threads);
    for_each_target([&] {
      for (int i = 0; i < 80; ++i) {
        Case s{random_.integer(1, 300), random_.integer(1, 14), random_.integer(1, 300)};
        s.lda_gap = random_.integer(0, 2);
        s.ldc_gap = random_.coin() ? random_.integer(1, 5) : 0;
        s.bias = random_.coin();
        s.callback = random_.coin();
        s.activation = random_.coin();
        s.residual = static_cast<int>(random_.integer(0, 2));
        if (random_.coin()) s.lo = -0.5f;
        if (random_.coin()) s.hi = 0.75f;
        check(s, random_, pool);
      }
      for (const float poison : {kNan, kInfinity, -kInfinity}) check({60, 3, 100}, random_, pool, poison);
    });
  }
}

// More than one block along each axis.
TEST_F(Gemm, SeveralBlocks) {
  ThreadPool pool(2);
  for_each_target([&] {
    check({.m = 530, .n = 700, .k = 902, .bias = true, .activation = true, .residual = 1}, random_, pool);
    check({.m = 30, .n = 700, .k = 1700, .residual = 2}, random_, pool);
  });
}

// Bit by bit, though a thread may have so few rows, or of one row so few panels, that a product of theirs alone would
// be summed up otherwise.
TEST_F(Gemm, ThreadsChangeNothing) {
  for_each_target([&] {
    for (int round = 0; round < 40; ++round) {
      const int64_t m = round % 2 == 0 ? 1 : random_.integer(2, 40);
      const int64_t n = random_.integer(1, m == 1 ? 700 : 200), k = random_.integer(1, 1500);
      const std::vector<float> a = random_.vector(m * k), b = random_.vector(k * n);
      const PackedLayout layout = packed_layout(k, n);
      std::vector<float> packed(static_cast<size_t>(layout.floats())), expected;
      pack_b(layout, b.data(), n, 1, packed.data());
      for (const int threads : {1, 2, 3, 5}) {
        ThreadPool pool(threads);
        std::vector<float> c(static_cast<size_t>(m * n));
        GemmArgs args;
        args.m = m, args.n = n, args.k = k;
        args.a = a.data(), args.lda = k;
        args.packed_b = packed.data();
        args.c = c.data(), args.ldc = n;
        Workspace workspace(gemm_workspace_bytes(m, n, k, threads));
        gemm(args, pool, workspace.get());
        if (threads == 1) expected = c;
        ASSERT_EQ(c, expected) << m << "x" << n << "x" << k << " threads " << threads;
      }
    }
  });
}

// Bit by bit, beside none, few and many others, on any number of threads: with K in several blocks, columns that are
// taken as dot products, panels that are not full, and what is added to the sums in whatever order.
TEST_F(Gemm, BatchInvariantRowsAreTheSameBesideAnyOthers) {
  for_each_target([&] {
    for (int round = 0; round < 24; ++round) {
      const int64_t most = 230, k = random_.integer(1, round % 3 == 0 ? 300 : 2100);
      const int64_t n = random_.integer(1, round % 4 == 0 ? 12 : round % 4 == 1 ? 40 : 400);
      const bool bias = random_.coin(), activation = random_.coin();
      const int64_t residual = random_.integer(0, 2), more = random_.integer(0, 1);
      const std::vector<float> a = random_.vector(most * k), b = random_.vector(k * n), biases = random_.vector(n);
      const std::vector<float> residuals = random_.vector(most * n), others = random_.vector(most * n);
      const PackedLayout layout = packed_layout(k, n);
      std::vector<float> packed(static_cast<size_t>(layout.floats())), expected;
      pack_b(layout, b.data(), n, 1, packed.data());
      for (const int64_t m : {most, int64_t{1}, int64_t{2}, int64_t{5}, int64_t{6}, int64_t{7}, int64_t{40}}) {
        const int threads = static_cast<int>(random_.integer(1, 5));
        ThreadPool pool(threads);
        std::vector<float> c(residuals.begin(), residuals.begin() + m * n);
        GemmArgs args;
        args.batch_invariant = true;
        args.m = m, args.n = n, args.k = k;
        args.a = a.data(), args.lda = k;
        args.packed_b = packed.data();
        args.c = c.data(), args.ldc = n;
        if (bias) args.epilogue.bias = biases.data();
        if (residual > 0) args.epilogue.residual = residual == 2 ? c.data() : residuals.data();
        args.epilogue.residual_ld = n;
        if (more > 0) args.epilogue.more_residuals[0] = {others.data(), n};
        if (activation) args.epilogue.activation = &kLeaky;
        Workspace workspace(gemm_workspace_bytes(m, n, k, threads, true));
        gemm(args, pool, workspace.get());
        if (m == most) expected = c;
        ASSERT_TRUE(std::equal(c.begin(), c.end(), expected.begin()))
            << m << "x" << n << "x" << k << " threads " << threads << " bias " << bias << " residual " << residual
            << "+" << more << " activation " << activation;
      }
    }
  });
}

TEST_F(Gemm, ZeroSizes) {
  ThreadPool pool(2);
  for_each_target([&] {
    check({.m = 5, .n = 20, .k = 0, .bias = true, .lo = 0.0f}, random_, pool);
    check({.m = 5, .n = 20, .k = 0, .residual = 2}, random_, pool);
    check({.m = 0, .n = 20, .k = 3}, random_, pool);
    check({.m = 5, .n = 0, .k = 3}, random_, pool);
  });
}

TEST_F(Gemm, NanAndInfinityReachTheirRowsAndColumnsOnly) {
  ThreadPool pool(2);
  for_each_target([&] {
    for (const float poison : {kNan, kInfinity, -kInfinity}) {
      check({.m = 30, .n = 75, .k = 140, .bias = true, .lo = 0.0f, .hi = 6.0f}, random_, pool, poison);
      check({.m = 3, .n = 75, .k = 140}, random_, pool, poison);
      check({.m = 40, .n = 75, .k = 5, .bias = true, .lo = 0.0f, .hi = 6.0f}, random_, pool, poison);
    }
  });
}

TEST_F(Gemm, PackedForAnotherMachineUnpacksHere) {
  for (const auto& [width, lanes] : {std::pair<int32_t, int32_t>{64, 16}, {16, 8}, {2, 1}, {48, 16}}) {
    for (const int64_t n : {1, 15, 16, 17, 63, 64, 65, 130}) {
      const PackedLayout layout{7, n, width, lanes};
      const std::vector<float> b = random_.vector(7 * n);
      std::vector<float> packed(static_cast<size_t>(layout.floats())), back(b.size());
      pack_b(layout, b.data(), n, 1, packed.data());
      unpack_b(layout, packed.data(), back.data(), n, 1);
      EXPECT_EQ(b, back);
    }
  }
}

TEST_F(Gemm, BatchesOfAnyStrides) {
  for (int threads = 1; threads <= 3; ++threads) {
    ThreadPool pool(threads);
    for_each_target([&] {
      for (int round = 0; round < 40; ++round) {
        const int64_t outer = random_.integer(1, 3), inner = random_.integer(1, 3);
        BatchGemmArgs args;
        args.batch = outer * inner, args.inner_batch = inner;
        args.m = random_.integer(1, 50), args.n = random_.integer(1, 140), args.k = random_.integer(0, 150);
        if (random_.coin()) args.m = random_.integer(1, 5);
        if (random_.coin()) args.k = random_.integer(0, 18);
        if (random_.integer(0, 3) == 0) args.n = 1;
        const bool a_transposed = random_.coin(), b_transposed = random_.coin(), heads = random_.coin();
        const int64_t broadcast = random_.coin() ? 1 : 0;
        // A as [outer, m, inner, k] or [outer, inner, m, k], perhaps with m and k exchanged.
        args.a_row_stride = a_transposed ? 1 : heads ? inner * args.k : args.k;
        args.a_k_stride = a_transposed ? args.m : 1;
        args.a_inner_stride = heads && !a_transposed ? args.k : args.m * args.k;
        args.a_outer_stride = inner * args.m * args.k;
        args.b_k_stride = b_transposed ? 1 : args.n, args.b_n_stride = b_transposed ? args.k : 1;
        args.b_inner_stride = broadcast * args.n * args.k;
        args.b_outer_stride = inner * args.n * args.k;
        args.c_row_stride = heads ? inner * args.n : args.n;
        args.c_inner_stride = heads ? args.n : args.m * args.n;
        args.c_outer_stride = inner * args.m * args.n;
        const std::vector<float> a = random_.vector(args.batch * args.m * args.k);
        const std::vector<float> b = random_.vector(args.batch * args.k * args.n);
        const std::vector<float> bias = random_.vector(args.n), residual = random_.vector(args.batch * args.m * args.n);
        std::vector<float> c(residual.size(), kGuard);
        args.a = a.data(), args.b = b.data(), args.c = c.data();
        if (random_.coin()) args.epilogue.bias = bias.data();
        if (random_.coin()) args.epilogue.residual = residual.data();
        if (random_.coin()) args.epilogue.activation = &kLeaky, args.epilogue.addend = residual.data();
        SCOPED_TRACE(testing::Message() << outer << "*" << inner << " of " << args.m << "x" << args.n << "x" << args.k
                                        << " transposed " << a_transposed << b_transposed << " heads " << heads
                                        << " threads " << threads);
        Workspace workspace(batch_gemm_workspace_bytes(args, threads));
        batch_gemm(args, pool, workspace.get());
        for (int64_t o = 0; o < outer; ++o) {
          for (int64_t in = 0; in < inner; ++in) {
            const float* ae = a.data() + o * args.a_outer_stride + in * args.a_inner_stride;
            const float* be = b.data() + o * args.b_outer_stride + in * args.b_inner_stride;
            for (int64_t i = 0; i < args.m; ++i) {
              for (int64_t j = 0; j < args.n; ++j) {
                double sum = 0;
                for (int64_t k = 0; k < args.k; ++k) {
                  sum += static_cast<double>(ae[i * args.a_row_stride + k * args.a_k_stride]) *
                         be[k * args.b_k_stride + j * args.b_n_stride];
                }
                const auto at =
                    static_cast<size_t>(o * args.c_outer_stride + in * args.c_inner_stride + i * args.c_row_stride + j);
                if (args.epilogue.bias) sum += bias[static_cast<size_t>(j)];
                if (args.epilogue.residual) sum += residual[at];
                if (args.epilogue.activation) sum = activation_reference(kLeaky, sum) + residual[at];
                ASSERT_TRUE(close_enough(c[at], sum, static_cast<double>(args.k), args.k)) << c[at] << " for " << sum;
              }
            }
          }
        }
      }
    });
  }
}

}  // namespace
}  // namespace camshaft::cpu::gemm_test
