#include "backends/cuda/libraries/blas.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "base/error.h"

namespace camshaft::cuda {

namespace {

void check_blas(api::Result result, std::string_view action) {
  if (result == api::success) return;
  const auto code = result == api::blas_out_of_memory   ? ErrorCode::out_of_memory
                    : result == api::blas_not_supported ? ErrorCode::unsupported
                                                        : ErrorCode::internal;
  throw Error(code, fmt::format("cuBLASLt {} failed in {}: status {}", blas_library().version, action, result));
}

/// What the library keeps for a device; null where it cannot be used there. Made once, and kept until the process ends.
api::Handle blas_handle_of(const Device& device) {
  static std::mutex mutex;
  static std::map<int, api::Handle> handles;
  const std::lock_guard lock(mutex);
  const auto [it, is_new] = handles.try_emplace(device.facts().ordinal, nullptr);
  if (is_new && blas_library().problem.empty()) {
    const Current current(device);
    if (const api::Result result = blas_library().functions.cublasLtCreate(&it->second); result != api::success) {
      it->second = nullptr;
      warn_of_refusal("cuBLASLt", blas_library().file.path(),
                      fmt::format("cuBLASLt {} does not start on {}: status {}", blas_library().version,
                                  device.facts().name, result));
    }
  }
  return it->second;
}

api::DataType data_type(DType dtype) {
  if (dtype == DType::f8e4m3) return api::type_f8e4m3;
  return dtype == DType::f32 ? api::type_f32 : dtype == DType::f16 ? api::type_f16 : api::type_bf16;
}

}  // namespace

bool has_blas(const Device& device) {
  return blas_handle_of(device) != nullptr;
}

// The library's matrices lie by columns: for it each of ours is transposed, and so is the product, bᵀ · aᵀ.
BlasProduct::BlasProduct(std::shared_ptr<const Device> device, const BlasProblem& problem, unsigned alignment, int rank)
    : device_(std::move(device)),
      blas_(blas_library().functions),
      library_(blas_handle_of(*device_)),
      alpha_(problem.alpha),
      beta_(problem.beta),
      has_bias_(problem.has_bias) {
  try {
    describe(problem);
    choose(problem, alignment, rank);
  } catch (const Error& e) {
    release();
    if (e.code() != ErrorCode::internal) throw;
    warn_of_refusal("cuBLASLt", blas_library().file.path(), e.what());
    throw Error(ErrorCode::unsupported, e.what());
  }
}

BlasProduct::~BlasProduct() {
  release();
}

void BlasProduct::release() {
  for (const api::Handle layout : layouts_) blas_.cublasLtMatrixLayoutDestroy(layout);
  if (product_) blas_.cublasLtMatmulDescDestroy(product_);
}

api::Handle BlasProduct::add_layout(DType dtype, int64_t rows, int64_t columns, const BlasOperand& operand,
                                    int64_t batch) {
  if (operand.is_transposed) std::swap(rows, columns);
  api::Handle layout = nullptr;
  check_blas(blas_.cublasLtMatrixLayoutCreate(&layout, data_type(dtype), static_cast<uint64_t>(columns),
                                              static_cast<uint64_t>(rows), operand.pitch),
             "describing a matrix");
  layouts_.push_back(layout);
  if (batch > 1) {
    const auto count = static_cast<int32_t>(batch);
    check_blas(blas_.cublasLtMatrixLayoutSetAttribute(layout, api::layout_batch_count, &count, sizeof count),
               "describing a batch of matrices");
    check_blas(blas_.cublasLtMatrixLayoutSetAttribute(layout, api::layout_batch_stride, &operand.batch_stride,
                                                      sizeof operand.batch_stride),
               "describing a batch of matrices");
  }
  return layout;
}

void BlasProduct::describe(const BlasProblem& p) {
  check_blas(blas_.cublasLtMatmulDescCreate(&product_, p.tf32 ? api::compute_tf32 : api::compute_f32, api::type_f32),
             "describing a product");
  const auto set = [&](api::BlasProductAttribute which, auto value) {
    check_blas(blas_.cublasLtMatmulDescSetAttribute(product_, which, &value, sizeof value), "describing a product");
  };
  set(api::product_transpose_a, int32_t{p.b.is_transposed});
  set(api::product_transpose_b, int32_t{p.a.is_transposed});
  if (p.dtype == DType::f8e4m3) set(api::product_fast_sums, int8_t{1});
  if (p.b_scales) {
    set(api::product_scale_mode_a, api::scales_of_rows);
    set(api::product_scale_mode_b, api::scales_of_rows);
    set(api::product_scale_a, p.b_scales);
    set(api::product_scale_b, p.a_scales);
  }
  uint32_t epilogue = p.activation == api::epilogue_none ? 0U : uint32_t{p.activation};
  if (p.has_bias) epilogue |= api::epilogue_bias;
  set(api::product_epilogue, epilogue == 0 ? uint32_t{api::epilogue_none} : epilogue);
  add_layout(p.dtype, p.m, p.k, p.a, p.batch);
  add_layout(p.dtype, p.k, p.n, p.b, p.batch);
  add_layout(p.result, p.m, p.n, p.beta == 0 ? p.c : p.residual, p.batch);
  add_layout(p.result, p.m, p.n, p.c, p.batch);
}

void BlasProduct::choose(const BlasProblem& p, unsigned alignment, int rank) {
  const auto of_result = std::max(alignment, static_cast<unsigned>(bit_width(p.result)) / 8);
  // From the address of the bias, too, the library takes what alignment to expect.
  if (const void* example = reinterpret_cast<const void*>(uintptr_t{of_result}); has_bias_)
    check_blas(blas_.cublasLtMatmulDescSetAttribute(product_, api::product_bias_pointer, &example, sizeof example),
               "describing a bias");
  struct Preference {
    const api::Blas& blas;
    api::Handle handle = nullptr;
    ~Preference() {
      if (handle) blas.cublasLtMatmulPreferenceDestroy(handle);
    }
  } preference{blas_};
  check_blas(blas_.cublasLtMatmulPreferenceCreate(&preference.handle), "choosing an algorithm");
  const auto set = [&](api::BlasPreferenceAttribute which, auto value) {
    check_blas(blas_.cublasLtMatmulPreferenceSetAttribute(preference.handle, which, &value, sizeof value),
               "choosing an algorithm");
  };
  set(api::preference_workspace_bytes, uint64_t{32} << 20);  // what NVIDIA advises for Hopper
  for (const auto which : {api::preference_alignment_a, api::preference_alignment_b}) set(which, uint32_t{alignment});
  for (const auto which : {api::preference_alignment_c, api::preference_alignment_d}) set(which, uint32_t{of_result});
  const Current current(*device_);
  std::vector<api::BlasChoice> choices(static_cast<size_t>(rank) + 1);
  int count = 0;
  const api::Result result =
      blas_.cublasLtMatmulAlgoGetHeuristic(library_, product_, layouts_[1], layouts_[0], layouts_[2], layouts_[3],
                                           preference.handle, static_cast<int>(choices.size()), choices.data(), &count);
  choices.resize(result == api::success ? static_cast<size_t>(std::max(count, 0)) : 0);
  while (!choices.empty() && choices.back().state != api::success) choices.pop_back();
  if (choices.empty())
    throw Error(ErrorCode::unsupported,
                fmt::format("cuBLASLt {} has no algorithm for a product of {} × {} × {} in {} (status {})",
                            blas_library().version, p.m, p.n, p.k, to_string(p.dtype), result));
  algorithm_ = choices.back().algorithm;
  workspace_bytes_ = choices.back().workspace_bytes;
}

void BlasProduct::run(const Stream& stream, const LibraryAddresses& at) {
  const Current current(*device_);
  if (has_bias_)
    check_blas(blas_.cublasLtMatmulDescSetAttribute(product_, api::product_bias_pointer, &at.bias, sizeof at.bias),
               "setting a bias");
  const std::byte* residual = beta_ == 0 ? at.c : at.residual;
  check_blas(blas_.cublasLtMatmul(library_, product_, &alpha_, at.b, layouts_[1], at.a, layouts_[0], &beta_, residual,
                                  layouts_[2], at.c, layouts_[3], &algorithm_, at.workspace, workspace_bytes_,
                                  stream.handle()),
             "launching a product");
}

}  // namespace camshaft::cuda
