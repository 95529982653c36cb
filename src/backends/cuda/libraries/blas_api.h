// The C functions of cuBLASLt that are looked up at run time; see c_api.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/driver/c_api.h"

namespace camshaft::cuda::api {

/// cudaDataType
enum DataType : int { type_f32 = 0, type_f16 = 2, type_bf16 = 14, type_f8e4m3 = 28 };

/// cublasComputeType_t: sums of f32 products, from inputs as they are, or from f32 that is rounded to TF32.
constexpr int compute_f32 = 68, compute_tf32 = 77;

/// libraryPropertyType
enum LibraryProperty : int { major_version = 0, minor_version = 1, patch_version = 2 };

/// cublasStatus_t beside success
enum BlasStatus : Result { blas_out_of_memory = 3, blas_invalid_value = 7, blas_not_supported = 15 };

/// cublasLtMatrixLayoutAttribute_t
enum BlasLayoutAttribute : int { layout_batch_count = 5, layout_batch_stride = 6 };

/// cublasLtMatmulDescAttributes_t
enum BlasProductAttribute : int {
  product_transpose_a = 3,
  product_transpose_b = 4,
  product_epilogue = 7,
  product_bias_pointer = 8,
  product_scale_a = 17,  ///< pointers to scales on the device
  product_scale_b = 18,
  product_fast_sums = 25,  ///< of 8-bit floats: as the instructions have them, with about 14 bits
  product_scale_mode_a = 31,
  product_scale_mode_b = 32,
};

/// cublasLtMatmulMatrixScale_t: one f32 for each row of A (column of B), from cuBLAS 12.9 on.
constexpr int32_t scales_of_rows = 3;

/// cublasLtEpilogue_t; flags that combine, but for `none`.
enum BlasEpilogue : uint32_t { epilogue_none = 1, epilogue_relu = 2, epilogue_bias = 4, epilogue_gelu = 32 };

/// cublasLtMatmulPreferenceAttributes_t
enum BlasPreferenceAttribute : int {
  preference_workspace_bytes = 1,
  preference_alignment_a = 5,
  preference_alignment_b = 6,
  preference_alignment_c = 7,
  preference_alignment_d = 8,
};

/// cublasLtMatmulAlgo_t
struct BlasAlgorithm {
  uint64_t data[8];
};

/// cublasLtMatmulHeuristicResult_t
struct BlasChoice {
  BlasAlgorithm algorithm;
  size_t workspace_bytes;
  Result state;
  float waves;
  int reserved[4];
};

// X(name, parameters): every function returns Result. Matrices are stored by columns.
#define CAMSHAFT_CUDA_BLAS(X)                                                                                          \
  X(cublasLtCreate, (Handle * library))                                                                                \
  X(cublasLtGetProperty, (LibraryProperty which, int* value))                                                          \
  X(cublasLtMatrixLayoutCreate, (Handle * layout, DataType type, uint64_t rows, uint64_t columns, int64_t pitch))      \
  X(cublasLtMatrixLayoutDestroy, (Handle layout))                                                                      \
  X(cublasLtMatrixLayoutSetAttribute, (Handle layout, BlasLayoutAttribute which, const void* value, size_t bytes))     \
  X(cublasLtMatmulDescCreate, (Handle * product, int compute_type, DataType scale_type))                               \
  X(cublasLtMatmulDescDestroy, (Handle product))                                                                       \
  X(cublasLtMatmulDescSetAttribute, (Handle product, BlasProductAttribute which, const void* value, size_t bytes))     \
  X(cublasLtMatmulPreferenceCreate, (Handle * preference))                                                             \
  X(cublasLtMatmulPreferenceDestroy, (Handle preference))                                                              \
  X(cublasLtMatmulPreferenceSetAttribute,                                                                              \
    (Handle preference, BlasPreferenceAttribute which, const void* value, size_t bytes))                               \
  X(cublasLtMatmulAlgoGetHeuristic, (Handle library, Handle product, Handle a, Handle b, Handle c, Handle d,           \
                                     Handle preference, int most, BlasChoice* choices, int* count))                    \
  X(cublasLtMatmul, (Handle library, Handle product, const void* alpha, const void* a, Handle a_layout, const void* b, \
                     Handle b_layout, const void* beta, const void* c, Handle c_layout, void* d, Handle d_layout,      \
                     const BlasAlgorithm* algorithm, void* workspace, size_t workspace_bytes, Handle stream))

/// libcublasLt.so: matrix products.
struct Blas {
#define CAMSHAFT_CUDA_MEMBER(name, parameters) Result(*name) parameters = nullptr;
  CAMSHAFT_CUDA_BLAS(CAMSHAFT_CUDA_MEMBER)
#undef CAMSHAFT_CUDA_MEMBER
};

}  // namespace camshaft::cuda::api
