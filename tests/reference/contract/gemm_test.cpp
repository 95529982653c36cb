#include "reference/contract/gemm.h"

#include <vector>

#include "reference/random_tensor.h"
#include "reference/single_op.h"

namespace camshaft::ops {
namespace {

template <class T>
class Dense final : public GemmProblem<T> {
 public:
  std::vector<T> a, b;
  mutable std::vector<T> c;
  Dense(int64_t m, int64_t n, int64_t k) {
    this->m = m;
    this->n = n;
    this->k = k;
    c.resize(static_cast<size_t>(m * n));
  }
  void load_a(int64_t, int64_t row, int64_t first, int64_t count, T* out) const override {
    std::copy_n(a.begin() + row * this->k + first, count, out);
  }
  void load_b(int64_t, int64_t row, int64_t first, int64_t count, T* out) const override {
    std::copy_n(b.begin() + row * this->n + first, count, out);
  }
  void store(int64_t, int64_t row, int64_t first, int64_t count, T* in) const override {
    std::copy_n(in, count, c.begin() + row * this->n + first);
  }
};

// Every inner kernel that the machine runs gives the bits of a plain loop in the order of k.
template <class T>
void compare_kernels() {
  Random random = test_random();
  for (int round = 0; round < 20; ++round) {
    Dense<T> problem(random.integer(1, 230), random.integer(1, 330), random.integer(0, 300));
    for (int64_t i = 0; i < problem.m * problem.k; ++i) problem.a.push_back(static_cast<T>(random.uniform(0, 1e6)) / 7);
    for (int64_t i = 0; i < problem.n * problem.k; ++i) problem.b.push_back(static_cast<T>(random.uniform(0, 1e6)) / 7);
    std::vector<T> want(problem.c.size());
    for (int64_t i = 0; i < problem.m; ++i)
      for (int64_t p = 0; p < problem.k; ++p)
        for (int64_t j = 0; j < problem.n; ++j)
          want[static_cast<size_t>(i * problem.n + j)] +=
              problem.a[static_cast<size_t>(i * problem.k + p)] * problem.b[static_cast<size_t>(p * problem.n + j)];
    for (size_t kernel = 0; kernel < gemm_kernel_count(); ++kernel) {
      std::fill(problem.c.begin(), problem.c.end(), T{1});
      solve(problem, test_pool(), kernel);
      ASSERT_EQ(problem.c, want) << "kernel " << kernel << ", " << problem.m << "x" << problem.n << "x" << problem.k;
    }
  }
}

TEST(Gemm, KernelsGiveTheSameBits) {
  compare_kernels<double>();
}
TEST(Gemm, IntegerKernelsAreExact) {
  compare_kernels<uint64_t>();
}

}  // namespace
}  // namespace camshaft::ops
