// Products by cuBLASLt.
#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/driver/stream.h"
#include "backends/cuda/libraries/libraries.h"
#include "backends/cuda/tactics/library_product.h"
#include "base/dtype.h"

namespace camshaft::cuda {

/// Whether cuBLASLt can be used on the device; the first call opens it. Safe to use from several threads, as all here.
bool has_blas(const Device& device);

/// Matrices of an operand, by rows: element (i, j) of matrix z is z · batch_stride + i · pitch + j elements behind the
/// first, or i and j swapped where it is transposed.
struct BlasOperand {
  int64_t pitch = 1;
  int64_t batch_stride = 0;
  bool is_transposed = false;
};

/// result = activation(alpha · a · b + beta · residual + bias), for each of `batch` matrices: a is m × k, b k × n. All
/// sizes are at least 1. Sums are of f32, and f32 is not rounded before it is multiplied but with `tf32`.
struct BlasProblem {
  DType dtype = DType::f16;   ///< of a and b: f32, f16, bf16 or f8e4m3
  DType result = DType::f16;  ///< of the result, the residual and the bias: the same, or f32
  int64_t m = 1, n = 1, k = 1, batch = 1;
  BlasOperand a, b, c, residual;
  float alpha = 1, beta = 0;
  bool has_bias = false;
  bool tf32 = false;
  /// Of f8e4m3, on the device: what sums are multiplied by, one for each row of a and one for each column of b.
  const float *a_scales = nullptr, *b_scales = nullptr;
  api::BlasEpilogue activation = api::epilogue_none;  ///< or relu, gelu (by tanh)
};

/// The library's description of a problem, and the algorithm for it. For one thread at a time.
class BlasProduct {
 public:
  /// Operands will be aligned to `alignment` bytes, or to their type's where that is more. Takes the algorithm that the
  /// library ranks at `rank`, 0 being the one that it expects to be fastest, or the last where it knows fewer. Throws
  /// Error(unsupported) where it knows none.
  BlasProduct(std::shared_ptr<const Device> device, const BlasProblem& problem, unsigned alignment, int rank);
  ~BlasProduct();
  BlasProduct(const BlasProduct&) = delete;
  BlasProduct& operator=(const BlasProduct&) = delete;

  size_t workspace_bytes() const { return workspace_bytes_; }
  /// The residual may be the result's own memory, if it lies there as the result does. The workspace is aligned to 16
  /// bytes.
  void run(const Stream& stream, const LibraryAddresses& addresses);

 private:
  void describe(const BlasProblem& problem);
  void choose(const BlasProblem& problem, unsigned alignment, int rank);
  api::Handle add_layout(DType dtype, int64_t rows, int64_t columns, const BlasOperand& operand, int64_t batch);
  void release();

  std::shared_ptr<const Device> device_;
  const api::Blas& blas_;
  api::Handle library_;
  float alpha_, beta_;
  bool has_bias_;
  api::Handle product_ = nullptr;
  std::vector<api::Handle> layouts_;  // of a, b, residual, c
  api::BlasAlgorithm algorithm_ = {};
  size_t workspace_bytes_ = 0;
};

}  // namespace camshaft::cuda
