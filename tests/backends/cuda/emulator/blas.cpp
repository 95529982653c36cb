// A cuBLASLt that stands in for NVIDIA's: the functions that src/backends/cuda/libraries/blas_api.h declares, computed
// on the CPU. It holds its callers to what the real one asks of types, pitches, alignment and workspace.
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <vector>

#include "backends/cuda/libraries/blas_api.h"
#include "library.h"

using namespace camshaft::cuda::api;

#define EMULATOR_API extern "C" EMULATOR_SHARED

namespace {

struct Layout {
  DataType type;
  int64_t rows, columns, pitch;
  int32_t batch = 1;
  int64_t batch_stride = 0;

  int64_t last(int32_t batches) const { return (batches - 1) * batch_stride + (columns - 1) * pitch + rows; }
};

struct Product {
  int32_t transpose_a = 0, transpose_b = 0;
  uint32_t epilogue = epilogue_none;
  const void* bias = nullptr;
  bool tf32 = false;
  const float *scale_a = nullptr, *scale_b = nullptr;
  int32_t scale_mode_a = 0, scale_mode_b = 0;
  int8_t fast_sums = 0;
};

struct Preference {
  uint64_t workspace_bytes = 0;
  uint32_t alignment[4] = {256, 256, 256, 256};
};

// What the bits of an algorithm say here.
struct Algorithm {
  uint64_t magic, alignment, workspace_bytes, rank;
};
constexpr uint64_t magic = 0x626c6173;

size_t bytes_of(DataType type) {
  return type == type_f32 ? 4 : type == type_f8e4m3 ? 1 : 2;
}

float f8e4m3_to_float(uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  if ((code & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                        : std::ldexp(static_cast<float>(mantissa + 8), exponent - 10);
  return code & 0x80 ? -magnitude : magnitude;
}

float f16_to_float(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const float magnitude = exponent == 31  ? (mantissa ? std::numeric_limits<float>::quiet_NaN() : INFINITY)
                          : exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                                          : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

// To nearest, ties to even.
uint16_t float_to_f16(float x) {
  const auto sign = static_cast<uint16_t>(std::signbit(x) ? 0x8000 : 0);
  if (std::isnan(x)) return 0x7e00;
  const float magnitude = std::fabs(x);
  if (magnitude >= 65520) return sign | 0x7c00;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int step = std::max(exponent - 11, -24);
  const float steps = std::nearbyint(std::ldexp(magnitude, -step));
  const float rounded = std::ldexp(steps, step);
  if (rounded == 0) return sign;
  std::frexp(rounded, &exponent);
  if (exponent < -13) return sign | static_cast<uint16_t>(std::ldexp(rounded, 24));
  if (exponent > 16) return sign | 0x7c00;
  return sign |
         static_cast<uint16_t>((exponent + 14) << 10 | (static_cast<int>(std::ldexp(rounded, 11 - exponent)) & 1023));
}

float load(DataType type, const void* data, int64_t i) {
  if (type == type_f32) return static_cast<const float*>(data)[i];
  if (type == type_f8e4m3) return f8e4m3_to_float(static_cast<const uint8_t*>(data)[i]);
  const uint16_t bits = static_cast<const uint16_t*>(data)[i];
  return type == type_f16 ? f16_to_float(bits) : std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

void store(DataType type, void* data, int64_t i, float x) {
  if (type == type_f32) {
    static_cast<float*>(data)[i] = x;
    return;
  }
  if (type == type_f16) {
    static_cast<uint16_t*>(data)[i] = float_to_f16(x);
    return;
  }
  const auto bits = std::bit_cast<uint32_t>(x);
  static_cast<uint16_t*>(data)[i] =
      std::isnan(x) ? 0x7fc0 : static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float activate(uint32_t epilogue, float x) {
  if (epilogue & epilogue_relu) return x < 0 ? 0 : x;
  if (epilogue & epilogue_gelu) return 0.5F * x * (1 + std::tanh(0.7978845608F * (x + 0.044715F * x * x * x)));
  return x;
}

// To nearest, ties away from 0.
float rounded_to_tf32(float x) {
  return std::isfinite(x) ? std::bit_cast<float>((std::bit_cast<uint32_t>(x) + 0x1000) & 0xffffe000) : x;
}

struct Work {
  Product product;
  Layout a, b, c, d;
  float alpha, beta;
  const void *at_a, *at_b, *at_c;
  void* at_d;

  float factor(const Layout& layout, const void* data, int64_t i) const {
    const float x = load(layout.type, data, i);
    return product.tf32 && layout.type == type_f32 ? rounded_to_tf32(x) : x;
  }

  void run() const {
    const int64_t m = d.rows, n = d.columns, k = product.transpose_a ? a.rows : a.columns;
    std::vector<float> sums(static_cast<size_t>(m));
    for (int64_t z = 0; z < d.batch; ++z)
      for (int64_t j = 0; j < n; ++j) {
        std::fill(sums.begin(), sums.end(), 0.0F);
        for (int64_t l = 0; l < k; ++l) {
          const float right =
              factor(b, at_b, z * b.batch_stride + (product.transpose_b ? l * b.pitch + j : j * b.pitch + l));
          for (int64_t i = 0; i < m; ++i)
            sums[static_cast<size_t>(i)] +=
                right * factor(a, at_a, z * a.batch_stride + (product.transpose_a ? i * a.pitch + l : l * a.pitch + i));
        }
        for (int64_t i = 0; i < m; ++i) {
          float x = alpha * sums[static_cast<size_t>(i)];
          if (product.scale_a) x *= product.scale_a[i] * product.scale_b[j];
          if (beta != 0) x += beta * load(c.type, at_c, z * c.batch_stride + j * c.pitch + i);
          if (product.epilogue & epilogue_bias) x += load(d.type, product.bias, i);
          store(d.type, at_d, z * d.batch_stride + j * d.pitch + i, activate(product.epilogue, x));
        }
      }
  }
};

bool is_supported(const Product& p, const Layout& a, const Layout& b, const Layout& c, const Layout& d) {
  constexpr int64_t unknown = 997;  // the real one has gaps too: what its callers do then is tested by this one
  if ((p.transpose_a ? a.rows : a.columns) == unknown) return false;
  // Of 8-bit floats both lie along what is summed, and both have scales of rows or none.
  const bool has_scales =
      p.scale_a && p.scale_b && p.scale_mode_a == scales_of_rows && p.scale_mode_b == scales_of_rows;
  const bool is_float8 = a.type == type_f8e4m3 && p.transpose_a && !p.transpose_b && a.rows % 16 == 0 &&
                         d.type != type_f8e4m3 && (has_scales || (!p.scale_a && !p.scale_b));
  const bool types = a.type == b.type && c.type == d.type &&
                     (is_float8 || (a.type != type_f8e4m3 && (d.type == a.type || d.type == type_f32)));
  const int64_t m = p.transpose_a ? a.columns : a.rows, k = p.transpose_a ? a.rows : a.columns,
                n = p.transpose_b ? b.rows : b.columns, depth = p.transpose_b ? b.columns : b.rows;
  const bool sizes = m == d.rows && n == d.columns && k == depth && c.rows == m && c.columns == n;
  const bool batches = a.batch == d.batch && b.batch == d.batch && c.batch == d.batch;
  constexpr uint32_t flags = epilogue_relu | epilogue_bias | epilogue_gelu;
  const bool epilogue = p.epilogue == epilogue_none ||
                        ((p.epilogue & ~flags) == 0 && p.epilogue != 0 &&
                         (p.epilogue & (epilogue_relu | epilogue_gelu)) != (epilogue_relu | epilogue_gelu));
  return types && sizes && batches && epilogue;
}

bool is_aligned(const void* address, uint64_t alignment) {
  return reinterpret_cast<uintptr_t>(address) % alignment == 0;
}

bool is_there(const void* address, const Layout& layout) {
  return emulator::is_on_device(address, static_cast<size_t>(layout.last(layout.batch)) * bytes_of(layout.type));
}

// Sets a member of the same size.
template <class T>
Result set(T& member, const void* value, size_t bytes) {
  if (value == nullptr || bytes != sizeof member) return blas_invalid_value;
  std::memcpy(&member, value, bytes);
  return success;
}

}  // namespace

EMULATOR_API Result cublasLtCreate(Handle* library) {
  *library = new int(0);
  return success;
}

EMULATOR_API Result cublasLtGetProperty(LibraryProperty which, int* value) {
  *value = which == major_version ? 13 : 0;
  return success;
}

EMULATOR_API Result cublasLtMatrixLayoutCreate(Handle* layout, DataType type, uint64_t rows, uint64_t columns,
                                               int64_t pitch) {
  if (rows == 0 || columns == 0 || pitch < static_cast<int64_t>(rows)) return blas_invalid_value;
  *layout = new Layout{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), pitch};
  return success;
}

EMULATOR_API Result cublasLtMatrixLayoutDestroy(Handle layout) {
  delete static_cast<Layout*>(layout);
  return success;
}

EMULATOR_API Result cublasLtMatrixLayoutSetAttribute(Handle handle, BlasLayoutAttribute which, const void* value,
                                                     size_t bytes) {
  auto& layout = *static_cast<Layout*>(handle);
  if (which == layout_batch_count) return set(layout.batch, value, bytes);
  if (which == layout_batch_stride) return set(layout.batch_stride, value, bytes);
  return blas_invalid_value;
}

EMULATOR_API Result cublasLtMatmulDescCreate(Handle* product, int compute_type, DataType scale_type) {
  if ((compute_type != compute_f32 && compute_type != compute_tf32) || scale_type != type_f32)
    return blas_not_supported;
  *product = new Product{.tf32 = compute_type == compute_tf32};
  return success;
}

EMULATOR_API Result cublasLtMatmulDescDestroy(Handle product) {
  delete static_cast<Product*>(product);
  return success;
}

EMULATOR_API Result cublasLtMatmulDescSetAttribute(Handle handle, BlasProductAttribute which, const void* value,
                                                   size_t bytes) {
  auto& product = *static_cast<Product*>(handle);
  switch (which) {
    case product_transpose_a:
      return set(product.transpose_a, value, bytes);
    case product_transpose_b:
      return set(product.transpose_b, value, bytes);
    case product_epilogue:
      return set(product.epilogue, value, bytes);
    case product_bias_pointer:
      return set(product.bias, value, bytes);
    case product_scale_a:
      return set(product.scale_a, value, bytes);
    case product_scale_b:
      return set(product.scale_b, value, bytes);
    case product_fast_sums:
      return set(product.fast_sums, value, bytes);
    case product_scale_mode_a:
      return set(product.scale_mode_a, value, bytes);
    case product_scale_mode_b:
      return set(product.scale_mode_b, value, bytes);
  }
  return blas_invalid_value;
}

EMULATOR_API Result cublasLtMatmulPreferenceCreate(Handle* preference) {
  *preference = new Preference;
  return success;
}

EMULATOR_API Result cublasLtMatmulPreferenceDestroy(Handle preference) {
  delete static_cast<Preference*>(preference);
  return success;
}

EMULATOR_API Result cublasLtMatmulPreferenceSetAttribute(Handle handle, BlasPreferenceAttribute which,
                                                         const void* value, size_t bytes) {
  auto& preference = *static_cast<Preference*>(handle);
  if (which == preference_workspace_bytes) return set(preference.workspace_bytes, value, bytes);
  if (which < preference_alignment_a || which > preference_alignment_d) return blas_invalid_value;
  return set(preference.alignment[which - preference_alignment_a], value, bytes);
}

// Three algorithms for each problem; the second needs workspace.
EMULATOR_API Result cublasLtMatmulAlgoGetHeuristic(Handle library, Handle product, Handle a, Handle b, Handle c,
                                                   Handle d, Handle handle, int most, BlasChoice* choices, int* count) {
  if (library == nullptr || most < 1) return blas_invalid_value;
  *count = 0;
  if (!is_supported(*static_cast<Product*>(product), *static_cast<Layout*>(a), *static_cast<Layout*>(b),
                    *static_cast<Layout*>(c), *static_cast<Layout*>(d)))
    return blas_not_supported;
  const auto& preference = *static_cast<Preference*>(handle);
  uint64_t alignment = 16;
  for (const uint32_t known : preference.alignment) alignment = std::min<uint64_t>(alignment, known);
  for (uint64_t rank = 0; rank < 3 && *count < most; ++rank) {
    const Algorithm algorithm{magic, alignment, rank == 1 ? 4096U : 0U, rank};
    if (algorithm.workspace_bytes > preference.workspace_bytes) continue;
    BlasChoice& choice = choices[(*count)++];
    choice = {};
    std::memcpy(&choice.algorithm, &algorithm, sizeof algorithm);
    choice.workspace_bytes = algorithm.workspace_bytes;
    choice.state = success;
  }
  return success;
}

EMULATOR_API Result cublasLtMatmul(Handle library, Handle product, const void* alpha, const void* a, Handle a_layout,
                                   const void* b, Handle b_layout, const void* beta, const void* c, Handle c_layout,
                                   void* d, Handle d_layout, const BlasAlgorithm* chosen, void* workspace,
                                   size_t workspace_bytes, Handle stream) {
  if (library == nullptr || chosen == nullptr) return blas_invalid_value;
  Algorithm algorithm{};
  std::memcpy(&algorithm, chosen, sizeof algorithm);
  const Work work{*static_cast<Product*>(product),
                  *static_cast<Layout*>(a_layout),
                  *static_cast<Layout*>(b_layout),
                  *static_cast<Layout*>(c_layout),
                  *static_cast<Layout*>(d_layout),
                  *static_cast<const float*>(alpha),
                  *static_cast<const float*>(beta),
                  a,
                  b,
                  c,
                  d};
  if (algorithm.magic != magic || !is_supported(work.product, work.a, work.b, work.c, work.d))
    return blas_not_supported;
  for (const void* address : {a, b, c, static_cast<const void*>(d)})
    if (!is_aligned(address, algorithm.alignment)) return blas_not_supported;
  if (algorithm.workspace_bytes > workspace_bytes ||
      (workspace_bytes > 0 && (!is_aligned(workspace, 16) || !emulator::is_on_device(workspace, workspace_bytes))))
    return blas_invalid_value;
  if (!is_there(a, work.a) || !is_there(b, work.b) || !is_there(d, work.d)) return blas_invalid_value;
  if (work.beta != 0 && !is_there(c, work.c)) return blas_invalid_value;
  if (c == d && work.beta != 0 && work.c.pitch != work.d.pitch) return blas_invalid_value;
  if ((work.product.epilogue & epilogue_bias) &&
      (!is_aligned(work.product.bias, algorithm.alignment) ||
       !emulator::is_on_device(work.product.bias, static_cast<size_t>(work.d.rows) * bytes_of(work.d.type))))
    return blas_invalid_value;
  const bool done = emulator::enqueue(stream, [work, workspace, workspace_bytes] {
    if (workspace_bytes > 0) std::memset(workspace, 0x55, workspace_bytes);
    work.run();
    return std::string();
  });
  return done ? Result{success} : Result{blas_invalid_value};
}

// Each as it was declared.
#define CAMSHAFT_CHECK(name, parameters) \
  static_assert(std::is_same_v<decltype(&name), Result(*) parameters>, #name " is declared otherwise");
CAMSHAFT_CUDA_BLAS(CAMSHAFT_CHECK)
