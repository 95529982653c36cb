#include "reference/contract/gemm.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/thread_pool.h"
#include "reference/contract/plain_product.h"
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
    problem.a = random_numbers<T>(random, problem.m * problem.k, narrow);
    problem.b = random_numbers<T>(random, problem.n * problem.k, narrow);
    const std::vector<T> want = plain_product(problem.a, problem.b, problem.m, problem.n, problem.k);
    for (size_t kernel = 0; kernel < gemm_kernel_count(); ++kernel) {
      std::fill(problem.c.begin(), problem.c.end(), T{1});
      ThreadPool pool(static_cast<int>(random.integer(1, 3)));
      solve(problem, pool, kernel);
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
  compare_kernels<uint64_t>(false);
}

template <class T>
std::vector<T> turned(const std::vector<T>& matrix, int64_t rows, int64_t columns) {
  std::vector<T> out(matrix.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      out[static_cast<size_t>(j * rows + i)] = matrix[static_cast<size_t>(i * columns + j)];
  return out;
}

// And so do the loops that read B in place, over any strides of A and of the rows of B and C, of which nothing between
// them is written; and the second part of K goes on from the first.
template <class T>
void compare_unpacked() {
  Random random = test_random();
  for (int round = 0; round < 60; ++round) {
    const int64_t m = random.integer(1, 40), n = random.integer(1, 70), k = random.integer(0, 40);
    const int64_t apart = n + random.integer(0, 3), c_row = n + random.integer(0, 3), part = random.integer(0, k);
    const bool transposed = random.integer(0, 1) == 1;
    const std::vector<T> a = random_numbers<T>(random, m * k, false), b = random_numbers<T>(random, n * k, false);
    const std::vector<T> other = turned(a, m, k);
    std::vector<T> spread(static_cast<size_t>(k * apart), T{3});
    for (int64_t p = 0; p < k; ++p) std::copy_n(b.begin() + p * n, n, spread.begin() + p * apart);
    const std::vector<T> product = plain_product(a, b, m, n, k);
    std::vector<T> want(static_cast<size_t>(m * c_row), T{1});
    for (int64_t i = 0; i < m; ++i) std::copy_n(product.begin() + i * n, n, want.begin() + i * c_row);
    for (size_t isa = 0; isa < gemm_kernel_count(); ++isa) {
      std::vector<T> c(want.size(), T{1});
      UnpackedOperands<T> operands{transposed ? other.data() : a.data(),
                                   transposed ? 1 : k,
                                   transposed ? m : 1,
                                   spread.data(),
                                   apart,
                                   n,
                                   part,
                                   c.data(),
                                   c_row};
      unpacked_product(operands, m, isa);
      operands.a += part * operands.a_column, operands.b += part * apart, operands.k = k - part,
                                                                          operands.begins = false;
      unpacked_product(operands, m, isa);
      ASSERT_EQ(c, want) << "instruction set " << isa << ", " << m << "x" << n << "x" << k;
    }
  }
}

TEST(Gemm, UnpackedProductsHaveTheSameBits) {
  compare_unpacked<double>();
  compare_unpacked<uint32_t>();
  compare_unpacked<uint64_t>();
}

template <class T>
void compare_dots() {
  Random random = test_random();
  for (int round = 0; round < 60; ++round) {
    const int64_t m = random.integer(1, 80), k = random.integer(0, 50), apart = k + random.integer(0, 3),
                  step = random.integer(1, 3);
    const std::vector<T> a = random_numbers<T>(random, m * k, false), x = random_numbers<T>(random, k, false);
    // No more elements than there are: what is read behind them a sanitizer sees.
    std::vector<T> rows(static_cast<size_t>(k > 0 ? (m - 1) * apart + k : 0)),
        spread(static_cast<size_t>(k > 0 ? (k - 1) * step + 1 : 0));
    for (int64_t i = 0; i < m; ++i) std::copy_n(a.begin() + i * k, k, rows.begin() + (k > 0 ? i * apart : 0));
    for (int64_t p = 0; p < k; ++p) spread[static_cast<size_t>(p * step)] = x[static_cast<size_t>(p)];
    const std::vector<T> want = plain_product(a, x, m, 1, k), other = turned(a, m, k);
    for (size_t isa = 0; isa < gemm_kernel_count(); ++isa) {
      std::vector<T> c(want.size(), T{1}), columns(a.size(), T{1});
      dot_products<T>({rows.data(), apart, k, spread.data(), step, c.data()}, m, isa);
      ASSERT_EQ(c, want) << "instruction set " << isa << ", " << m << "x" << k;
      turn_rows<T>(rows.data(), m, apart, k, columns.data(), m, isa);
      ASSERT_EQ(columns, other) << "instruction set " << isa << ", " << m << "x" << k;
    }
  }
}

TEST(Gemm, DotsOfRowsHaveTheSameBits) {
  compare_dots<double>();
  compare_dots<uint32_t>();
  compare_dots<uint64_t>();
}

// Whole products, in each of the forms that they take by their sizes and by how the operands lie.
template <class T>
void compare_plain(DType dtype) {
  Random random = test_random();
  const auto size = [&] { return random.integer(0, 1) ? random.integer(1, 9) : random.integer(1, 400); };
  for (int round = 0; round < 60; ++round) {
    int64_t m = size(), n = size(), k = size();
    if (round % 10 == 1) m = random.integer(1000, 1300), n = random.integer(1, 60);  // B is packed once for many rows
    if (round % 10 == 2) n = 1;
    if (round % 10 == 3) m = random.integer(1, 4);
    MatMul op;
    op.transpose_a = random.integer(0, 1) == 1;
    op.transpose_b = random.integer(0, 1) == 1;
    const std::vector<T> a = random_numbers<T>(random, m * k, false), b = random_numbers<T>(random, n * k, false);
    const std::vector<T> a_lies = op.transpose_a ? turned(a, m, k) : a, b_lies = op.transpose_b ? turned(b, k, n) : b;
    const Dims a_dims = op.transpose_a ? Dims{k, m} : Dims{m, k}, b_dims = op.transpose_b ? Dims{n, k} : Dims{k, n};
    const ProductStack stack = product_stack(op, a_dims, b_dims);
    const std::vector<T> want = plain_product(a, b, m, n, k);
    std::vector<T> c(want.size(), T{1});
    ThreadPool pool(static_cast<int>(random.integer(1, 4)));
    const size_t bytes = plain_product_bytes(stack, dtype, 4);
    AlignedBuffer workspace(bytes + 64, "the workspace of a test");
    std::fill_n(workspace.data(), workspace.size(), std::byte{0x7f});
    ops::plain_product(stack, dtype, a_lies.data(), b_lies.data(), c.data(), pool,
                       round % 4 ? workspace.data() : nullptr);
    ASSERT_EQ(std::count(workspace.data() + bytes, workspace.data() + workspace.size(), std::byte{0x7f}), 64);
    ASSERT_EQ(c, want) << m << "x" << n << "x" << k << ", turned: " << op.transpose_a << op.transpose_b;
  }
}

TEST(Gemm, PlainProductsHaveTheSameBits) {
  compare_plain<double>(DType::f64);
  compare_plain<uint32_t>(DType::u32);
  compare_plain<uint64_t>(DType::u64);
}

}  // namespace
}  // namespace camshaft::ops::gemm_test
