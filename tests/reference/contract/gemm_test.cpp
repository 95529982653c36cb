#include "reference/contract/gemm.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/thread_pool.h"
#include "reference/contract/product_tiles.h"
#include "reference/random_tensor.h"
#include "reference/single_op.h"

namespace camshaft::ops::gemm_test {
namespace {

template <class T>
class Dense final : public GemmProblem<T> {
 public:
  std::vector<T> a, b;
  mutable std::vector<T> c;
  bool by_columns = false;  // B is read so
  // Where B lies column by column, and A too; empty: as a and b have them. In place: packed from there, and written
  // to where it belongs.
  std::vector<T> a_turned, b_turned;
  bool in_place = false;
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
  bool reads_b_by_columns() const override { return by_columns; }
  void load_b_columns(int64_t, int64_t column, int64_t columns, int64_t first, int64_t count, T* out,
                      int64_t stride) const override {
    for (int64_t k = 0; k < columns; ++k)
      for (int64_t i = 0; i < count; ++i)
        out[k * stride + i] = b[static_cast<size_t>((first + i) * this->n + column + k)];
  }
  void store(int64_t, int64_t row, int64_t first, int64_t count, T* in) const override {
    std::copy_n(in, count, c.begin() + row * this->n + first);
  }
  using Matrix = typename GemmProblem<T>::Matrix;
  Matrix a_in_memory(int64_t) const override {
    if (!in_place) return {};
    if (a_turned.empty()) return {const_cast<T*>(a.data()), this->k, 1};
    return {const_cast<T*>(a_turned.data()), 1, this->m};
  }
  Matrix b_in_memory(int64_t) const override {
    if (!in_place) return {};
    if (!by_columns) return {const_cast<T*>(b.data()), this->n, 1};
    return {const_cast<T*>(b_turned.data()), 1, this->k};
  }
  Matrix c_in_memory(int64_t) const override { return in_place ? Matrix{c.data(), this->n, 1} : Matrix{}; }
};

template <class T>
std::vector<T> turned(const std::vector<T>& matrix, int64_t rows, int64_t columns) {
  std::vector<T> out(matrix.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      out[static_cast<size_t>(j * rows + i)] = matrix[static_cast<size_t>(i * columns + j)];
  return out;
}

template <class T>
T multiply_add(T a, T b, T sum) {
  if constexpr (std::is_floating_point_v<T>) return std::fma(a, b, sum);
  return sum + a * b;
}

// Numbers of all bits, or as f32 has them.
template <class T>
std::vector<T> random_numbers(Random& random, int64_t count, bool narrow) {
  std::vector<T> numbers(static_cast<size_t>(count));
  for (T& number : numbers) {
    number = static_cast<T>(random.uniform(0, 1e6)) / 7;
    if (narrow) number = static_cast<T>(static_cast<float>(number));
  }
  return numbers;
}

// c = a · b, in the order of k.
template <class T>
std::vector<T> plain_product(const std::vector<T>& a, const std::vector<T>& b, int64_t m, int64_t n, int64_t k) {
  std::vector<T> c(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j) {
        T& sum = c[static_cast<size_t>(i * n + j)];
        sum = multiply_add(a[static_cast<size_t>(i * k + p)], b[static_cast<size_t>(p * n + j)], sum);
      }
  return c;
}

// Every inner kernel that the machine runs gives the bits of a plain loop in the order of k.
template <class T>
void compare_kernels(bool narrow) {
  Random random = test_random();
  for (int round = 0; round < 20; ++round) {
    Dense<T> problem(random.integer(1, 400), random.integer(1, 400), random.integer(0, 300));
    problem.exact_products = narrow;
    problem.by_columns = random.integer(0, 1) == 1;
    problem.a = random_numbers<T>(random, problem.m * problem.k, narrow);
    problem.b = random_numbers<T>(random, problem.n * problem.k, narrow);
    problem.in_place = round % 3 != 0;
    if (round % 2) problem.a_turned = turned(problem.a, problem.m, problem.k);
    problem.b_turned = turned(problem.b, problem.k, problem.n);
    const std::vector<T> want = plain_product(problem.a, problem.b, problem.m, problem.n, problem.k);
    for (size_t kernel = 0; kernel < gemm_kernel_count(); ++kernel) {
      std::fill(problem.c.begin(), problem.c.end(), T{1});
      ThreadPool pool(static_cast<int>(random.integer(1, 3)));
      const size_t bytes = gemm_workspace_bytes(problem, pool.size(), kernel);
      AlignedBuffer workspace(bytes + 64, "the workspace of a test");
      std::fill_n(workspace.data(), workspace.size(), std::byte{0x7f});
      solve(problem, pool, kernel, round % 4 ? workspace.data() : nullptr);
      ASSERT_EQ(std::count(workspace.data() + bytes, workspace.data() + workspace.size(), std::byte{0x7f}), 64);
      ASSERT_EQ(problem.c, want) << "kernel " << kernel << ", " << problem.m << "x" << problem.n << "x" << problem.k;
    }
  }
}

TEST(Gemm, KernelsGiveTheSameBits) {
  compare_kernels<double>(false);
}
TEST(Gemm, KernelsGiveTheSameBitsWhereProductsAreExact) {
  compare_kernels<double>(true);
}
TEST(Gemm, IntegerKernelsAreExact) {
  compare_kernels<uint32_t>(false);
  compare_kernels<uint64_t>(false);
}

// And so do the loops that read B in place, over any strides of A and of B's rows.
template <class T>
void compare_unpacked() {
  Random random = test_random();
  for (int round = 0; round < 40; ++round) {
    const int64_t m = random.integer(1, 20), n = random.integer(1, 70), k = random.integer(0, 40);
    const int64_t apart = n + random.integer(0, 3);
    const bool transposed = random.integer(0, 1) == 1;
    const std::vector<T> a = random_numbers<T>(random, m * k, false), b = random_numbers<T>(random, n * k, false);
    std::vector<T> turned(a.size()), spread(static_cast<size_t>(k * apart), T{3});
    for (int64_t i = 0; i < m; ++i)
      for (int64_t p = 0; p < k; ++p) turned[static_cast<size_t>(p * m + i)] = a[static_cast<size_t>(i * k + p)];
    for (int64_t p = 0; p < k; ++p) std::copy_n(b.begin() + p * n, n, spread.begin() + p * apart);
    const std::vector<T> want = plain_product(a, b, m, n, k);
    for (size_t isa = 0; isa < gemm_kernel_count(); ++isa) {
      std::vector<T> c(want.size(), T{1});
      const T* from = transposed ? turned.data() : a.data();
      unpacked_product<T>({from, transposed ? 1 : k, transposed ? m : 1, spread.data(), apart, n, k, c.data()}, m, isa);
      ASSERT_EQ(c, want) << "instruction set " << isa << ", " << m << "x" << n << "x" << k;
    }
  }
}

TEST(Gemm, UnpackedProductsHaveTheSameBits) {
  compare_unpacked<double>();
  compare_unpacked<uint32_t>();
  compare_unpacked<uint64_t>();
}

}  // namespace
}  // namespace camshaft::ops::gemm_test
