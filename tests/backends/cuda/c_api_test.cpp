// The declarations of c_api.h and its like against NVIDIA's own, where these are: the compiler does the work.
#include "backends/cuda/driver/c_api.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <type_traits>

#include "backends/cuda/libraries/blas_api.h"
#include "backends/cuda/libraries/dnn_api.h"

#if __has_include(<cuda.h>)
#include <cuda.h>
#endif
#if __has_include(<nvrtc.h>)
#include <nvrtc.h>
#endif
#if __has_include(<cublasLt.h>) && __has_include(<driver_types.h>) && __has_include(<nv/target>)
#include <cublasLt.h>
#endif
#if __has_include(<cudnn_graph.h>) && __has_include(<cuda_runtime.h>) && __has_include(<nv/target>)
#include <cudnn_graph.h>
#endif

namespace camshaft::cuda::api::c_api_test {
namespace {

// Structs of ours that stand for theirs; their layout is compared below.
template <class Ours, class Theirs>
constexpr bool is_same_struct = false;
#ifdef CUDA_VERSION
template <>
constexpr bool is_same_struct<LaunchConfig, CUlaunchConfig> = true;
template <>
constexpr bool is_same_struct<KernelNode, CUDA_KERNEL_NODE_PARAMS_v2> = true;
template <>
constexpr bool is_same_struct<MemoryProperties, CUmemAllocationProp> = true;
template <>
constexpr bool is_same_struct<MemoryAccess, CUmemAccessDesc> = true;
#endif
#ifdef CUBLAS_VERSION
template <>
constexpr bool is_same_struct<BlasAlgorithm, cublasLtMatmulAlgo_t> = sizeof(BlasAlgorithm) ==
                                                                     sizeof(cublasLtMatmulAlgo_t);
template <>
constexpr bool is_same_struct<BlasChoice, cublasLtMatmulHeuristicResult_t> = sizeof(BlasChoice) ==
                                                                             sizeof(cublasLtMatmulHeuristicResult_t);
#endif

// Whether a parameter is passed in the same way: handles are pointers to anything, enumerations integers.
template <class Ours, class Theirs>
constexpr bool same_value() {
  if constexpr (is_same_struct<Ours, Theirs>) {
    return true;
  } else if constexpr (std::is_floating_point_v<Ours>) {
    return std::is_same_v<Ours, Theirs>;
  } else if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using A = std::remove_cv_t<std::remove_pointer_t<Ours>>;
    using B = std::remove_cv_t<std::remove_pointer_t<Theirs>>;
    constexpr bool is_handle = std::is_void_v<A> && (std::is_void_v<B> || std::is_class_v<B>);
    if constexpr (is_handle) return true;
    if constexpr (!is_handle && !std::is_void_v<A> && !std::is_void_v<B>) return same_value<A, B>();
    return is_handle;
  } else {
    constexpr auto is_number = [](auto* t) {
      using T = std::remove_pointer_t<decltype(t)>;
      return std::is_integral_v<T> || std::is_enum_v<T>;
    };
    return is_number(static_cast<Ours*>(nullptr)) && is_number(static_cast<Theirs*>(nullptr)) &&
           sizeof(Ours) == sizeof(Theirs);
  }
}

template <class Ours, class Theirs>
struct SameFunction : std::false_type {};
template <class R, class... P, class S, class... Q>
requires(sizeof...(P) == sizeof...(Q)) struct SameFunction<R (*)(P...), S (*)(Q...)>
    : std::bool_constant<same_value<R, S>() && (same_value<P, Q>() && ...)> {
};

#define CAMSHAFT_COMPARE(name, parameters)                                    \
  static_assert(SameFunction<Result(*) parameters, decltype(&::name)>::value, \
                #name " is declared otherwise in NVIDIA's headers");

#ifdef CUDA_VERSION
CAMSHAFT_CUDA_DRIVER(CAMSHAFT_COMPARE)
#if CUDA_VERSION >= 12040
CAMSHAFT_CUDA_NEWER_DRIVER(CAMSHAFT_COMPARE)
#endif
static_assert(node_of_kernel == CU_GRAPH_NODE_TYPE_KERNEL && sizeof(KernelNode) == sizeof(CUDA_KERNEL_NODE_PARAMS_v2) &&
              offsetof(KernelNode, grid_x) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, gridDimX) &&
              offsetof(KernelNode, block_x) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, blockDimX) &&
              offsetof(KernelNode, shared_bytes) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, sharedMemBytes) &&
              offsetof(KernelNode, arguments) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, kernelParams) &&
              offsetof(KernelNode, kernel) == offsetof(CUDA_KERNEL_NODE_PARAMS_v2, kern));
static_assert(sizeof(MemoryProperties) == sizeof(CUmemAllocationProp) &&
              offsetof(MemoryProperties, location_type) == offsetof(CUmemAllocationProp, location) &&
              offsetof(MemoryProperties, device) ==
                  offsetof(CUmemAllocationProp, location) + offsetof(CUmemLocation, id) &&
              MemoryProperties().type == CU_MEM_ALLOCATION_TYPE_PINNED &&
              MemoryProperties().location_type == CU_MEM_LOCATION_TYPE_DEVICE &&
              sizeof(MemoryAccess) == sizeof(CUmemAccessDesc) &&
              offsetof(MemoryAccess, flags) == offsetof(CUmemAccessDesc, flags) &&
              MemoryAccess().flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(int{success} == CUDA_SUCCESS && int{error_out_of_memory} == CUDA_ERROR_OUT_OF_MEMORY &&
              int{error_no_device} == CUDA_ERROR_NO_DEVICE);
static_assert(int{multiprocessors} == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT &&
              int{l2_bytes} == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE &&
              int{capability_major} == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR &&
              int{capability_minor} == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR &&
              int{shared_bytes_per_block} == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
static_assert(int{most_dynamic_shared_bytes} == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES &&
              int{large_clusters} == CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED &&
              stream_non_blocking == CU_STREAM_NON_BLOCKING &&
              capture_of_this_thread == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
              capture_of_nobody == CU_STREAM_CAPTURE_MODE_RELAXED && event_without_time == CU_EVENT_DISABLE_TIMING &&
              event_of_recording == CU_EVENT_RECORD_EXTERNAL);
static_assert(int{kilohertz} == CU_DEVICE_ATTRIBUTE_CLOCK_RATE &&
              int{memory_kilohertz} == CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE &&
              int{memory_bus_bits} == CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH &&
              int{error_invalid_image} == CUDA_ERROR_INVALID_IMAGE &&
              int{error_no_binary} == CUDA_ERROR_NO_BINARY_FOR_GPU);
static_assert(int{memory_type} == CU_POINTER_ATTRIBUTE_MEMORY_TYPE &&
              int{is_managed} == CU_POINTER_ATTRIBUTE_IS_MANAGED &&
              int{device_ordinal} == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL && unsigned{of_host} == CU_MEMORYTYPE_HOST &&
              unsigned{of_device} == CU_MEMORYTYPE_DEVICE);
static_assert(sizeof(LaunchConfig) == sizeof(CUlaunchConfig) && sizeof(LaunchAttribute) == sizeof(CUlaunchAttribute) &&
              offsetof(LaunchConfig, block_x) == offsetof(CUlaunchConfig, blockDimX) &&
              offsetof(LaunchConfig, shared_bytes) == offsetof(CUlaunchConfig, sharedMemBytes) &&
              offsetof(LaunchConfig, stream) == offsetof(CUlaunchConfig, hStream) &&
              offsetof(LaunchConfig, attributes) == offsetof(CUlaunchConfig, attrs) &&
              offsetof(LaunchConfig, attribute_count) == offsetof(CUlaunchConfig, numAttrs) &&
              offsetof(LaunchAttribute, cluster_size) == offsetof(CUlaunchAttribute, value));
static_assert(int{LaunchAttribute::cluster} == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION &&
              int{LaunchAttribute::programmatic_serialization} ==
                  CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
TEST(CApi, OfTheDriver) {}
#else
TEST(CApi, OfTheDriver) {
  GTEST_SKIP() << "cuda.h was not there when this was built";
}
#endif

#if __has_include(<nvrtc.h>)
CAMSHAFT_CUDA_NVRTC(CAMSHAFT_COMPARE)
TEST(CApi, OfTheCompiler) {}
#else
TEST(CApi, OfTheCompiler) {
  GTEST_SKIP() << "nvrtc.h was not there when this was built";
}
#endif

#ifdef CUBLAS_VERSION
CAMSHAFT_CUDA_BLAS(CAMSHAFT_COMPARE)
static_assert(int{type_f32} == CUDA_R_32F && int{type_f16} == CUDA_R_16F && int{type_bf16} == CUDA_R_16BF &&
              compute_f32 == CUBLAS_COMPUTE_32F && compute_tf32 == CUBLAS_COMPUTE_32F_FAST_TF32);
static_assert(int{major_version} == MAJOR_VERSION && int{minor_version} == MINOR_VERSION &&
              int{patch_version} == PATCH_LEVEL);
static_assert(int{blas_out_of_memory} == CUBLAS_STATUS_ALLOC_FAILED &&
              int{blas_invalid_value} == CUBLAS_STATUS_INVALID_VALUE &&
              int{blas_not_supported} == CUBLAS_STATUS_NOT_SUPPORTED);
static_assert(int{layout_batch_count} == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT &&
              int{layout_batch_stride} == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
static_assert(int{product_transpose_a} == CUBLASLT_MATMUL_DESC_TRANSA &&
              int{product_transpose_b} == CUBLASLT_MATMUL_DESC_TRANSB &&
              int{product_epilogue} == CUBLASLT_MATMUL_DESC_EPILOGUE &&
              int{product_bias_pointer} == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(int{epilogue_none} == CUBLASLT_EPILOGUE_DEFAULT && int{epilogue_relu} == CUBLASLT_EPILOGUE_RELU &&
              int{epilogue_bias} == CUBLASLT_EPILOGUE_BIAS && int{epilogue_gelu} == CUBLASLT_EPILOGUE_GELU &&
              (epilogue_relu | epilogue_bias) == CUBLASLT_EPILOGUE_RELU_BIAS &&
              (epilogue_gelu | epilogue_bias) == CUBLASLT_EPILOGUE_GELU_BIAS);
static_assert(int{preference_workspace_bytes} == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES &&
              int{preference_alignment_a} == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES &&
              int{preference_alignment_b} == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES &&
              int{preference_alignment_c} == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES &&
              int{preference_alignment_d} == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(offsetof(BlasChoice, workspace_bytes) == offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize) &&
              offsetof(BlasChoice, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));
TEST(CApi, OfCuBlas) {}
#else
TEST(CApi, OfCuBlas) {
  GTEST_SKIP() << "cublasLt.h was not there when this was built";
}
#endif

#ifdef CUDNN_GRAPH_H_
CAMSHAFT_CUDA_DNN(CAMSHAFT_COMPARE)
static_assert(int{dnn_f32} == CUDNN_DATA_FLOAT && int{dnn_f16} == CUDNN_DATA_HALF &&
              int{dnn_bf16} == CUDNN_DATA_BFLOAT16);
static_assert(int{dnn_pointwise} == CUDNN_BACKEND_POINTWISE_DESCRIPTOR &&
              int{dnn_convolution} == CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR &&
              int{dnn_engine} == CUDNN_BACKEND_ENGINE_DESCRIPTOR &&
              int{dnn_engine_config} == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR &&
              int{dnn_heuristic} == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR &&
              int{dnn_plan} == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
              int{dnn_operation_convolution} == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR &&
              int{dnn_operation_pointwise} == CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR &&
              int{dnn_graph} == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR &&
              int{dnn_arguments} == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR &&
              int{dnn_tensor} == CUDNN_BACKEND_TENSOR_DESCRIPTOR &&
              int{dnn_matmul} == CUDNN_BACKEND_MATMUL_DESCRIPTOR &&
              int{dnn_operation_matmul} == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR &&
              int{dnn_reduction} == CUDNN_BACKEND_REDUCTION_DESCRIPTOR &&
              int{dnn_operation_reduction} == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
static_assert(int{dnn_value_library} == CUDNN_TYPE_HANDLE && int{dnn_value_type} == CUDNN_TYPE_DATA_TYPE &&
              int{dnn_value_boolean} == CUDNN_TYPE_BOOLEAN && int{dnn_value_int64} == CUDNN_TYPE_INT64 &&
              int{dnn_value_float} == CUDNN_TYPE_FLOAT && int{dnn_value_pointer} == CUDNN_TYPE_VOID_PTR &&
              int{dnn_value_convolution_mode} == CUDNN_TYPE_CONVOLUTION_MODE &&
              int{dnn_value_heuristic_mode} == CUDNN_TYPE_HEUR_MODE &&
              int{dnn_value_note} == CUDNN_TYPE_NUMERICAL_NOTE &&
              int{dnn_value_pointwise_mode} == CUDNN_TYPE_POINTWISE_MODE &&
              int{dnn_value_descriptor} == CUDNN_TYPE_BACKEND_DESCRIPTOR &&
              int{dnn_value_reduction} == CUDNN_TYPE_REDUCTION_OPERATOR_TYPE);
static_assert(int{dnn_pointwise_mode} == CUDNN_ATTR_POINTWISE_MODE &&
              int{dnn_pointwise_precision} == CUDNN_ATTR_POINTWISE_MATH_PREC &&
              int{dnn_convolution_precision} == CUDNN_ATTR_CONVOLUTION_COMP_TYPE &&
              int{dnn_convolution_mode} == CUDNN_ATTR_CONVOLUTION_CONV_MODE &&
              int{dnn_convolution_dilations} == CUDNN_ATTR_CONVOLUTION_DILATIONS &&
              int{dnn_convolution_strides} == CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES &&
              int{dnn_convolution_pads_after} == CUDNN_ATTR_CONVOLUTION_POST_PADDINGS &&
              int{dnn_convolution_pads_before} == CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS &&
              int{dnn_convolution_axes} == CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS);
static_assert(int{dnn_heuristic_mode} == CUDNN_ATTR_ENGINEHEUR_MODE &&
              int{dnn_heuristic_graph} == CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH &&
              int{dnn_heuristic_results} == CUDNN_ATTR_ENGINEHEUR_RESULTS &&
              int{dnn_engine_config_engine} == CUDNN_ATTR_ENGINECFG_ENGINE &&
              int{dnn_plan_engine_config} == CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG &&
              int{dnn_plan_workspace_bytes} == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE &&
              int{dnn_engine_notes} == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
static_assert(int{dnn_operation_convolution_alpha} == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA &&
              int{dnn_operation_convolution_beta} == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA &&
              int{dnn_operation_convolution_settings} == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC &&
              int{dnn_operation_convolution_weights} == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W &&
              int{dnn_operation_convolution_x} == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X &&
              int{dnn_operation_convolution_y} == CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y &&
              int{dnn_operation_pointwise_settings} == CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR &&
              int{dnn_operation_pointwise_x} == CUDNN_ATTR_OPERATION_POINTWISE_XDESC &&
              int{dnn_operation_pointwise_b} == CUDNN_ATTR_OPERATION_POINTWISE_BDESC &&
              int{dnn_operation_pointwise_y} == CUDNN_ATTR_OPERATION_POINTWISE_YDESC &&
              int{dnn_graph_operations} == CUDNN_ATTR_OPERATIONGRAPH_OPS);
static_assert(int{dnn_matmul_precision} == CUDNN_ATTR_MATMUL_COMP_TYPE &&
              int{dnn_operation_matmul_a} == CUDNN_ATTR_OPERATION_MATMUL_ADESC &&
              int{dnn_operation_matmul_b} == CUDNN_ATTR_OPERATION_MATMUL_BDESC &&
              int{dnn_operation_matmul_c} == CUDNN_ATTR_OPERATION_MATMUL_CDESC &&
              int{dnn_operation_matmul_settings} == CUDNN_ATTR_OPERATION_MATMUL_DESC &&
              int{dnn_reduction_operator} == CUDNN_ATTR_REDUCTION_OPERATOR &&
              int{dnn_reduction_precision} == CUDNN_ATTR_REDUCTION_COMP_TYPE &&
              int{dnn_operation_reduction_x} == CUDNN_ATTR_OPERATION_REDUCTION_XDESC &&
              int{dnn_operation_reduction_y} == CUDNN_ATTR_OPERATION_REDUCTION_YDESC &&
              int{dnn_operation_reduction_settings} == CUDNN_ATTR_OPERATION_REDUCTION_DESC);
static_assert(int{dnn_tensor_alignment} == CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT &&
              int{dnn_tensor_type} == CUDNN_ATTR_TENSOR_DATA_TYPE &&
              int{dnn_tensor_sizes} == CUDNN_ATTR_TENSOR_DIMENSIONS &&
              int{dnn_tensor_strides} == CUDNN_ATTR_TENSOR_STRIDES &&
              int{dnn_tensor_id} == CUDNN_ATTR_TENSOR_UNIQUE_ID &&
              int{dnn_tensor_is_virtual} == CUDNN_ATTR_TENSOR_IS_VIRTUAL &&
              int{dnn_tensor_is_by_value} == CUDNN_ATTR_TENSOR_IS_BY_VALUE &&
              int{dnn_arguments_ids} == CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS &&
              int{dnn_arguments_pointers} == CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS &&
              int{dnn_arguments_workspace} == CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
static_assert(int{dnn_add} == CUDNN_POINTWISE_ADD && int{dnn_multiply} == CUDNN_POINTWISE_MUL &&
              int{dnn_divide} == CUDNN_POINTWISE_DIV && int{dnn_subtract} == CUDNN_POINTWISE_SUB &&
              int{dnn_exp} == CUDNN_POINTWISE_EXP && int{dnn_log} == CUDNN_POINTWISE_LOG &&
              int{dnn_sum} == CUDNN_REDUCE_TENSOR_ADD && int{dnn_max} == CUDNN_REDUCE_TENSOR_MAX &&
              int{dnn_relu} == CUDNN_POINTWISE_RELU_FWD && int{dnn_sigmoid} == CUDNN_POINTWISE_SIGMOID_FWD &&
              int{dnn_gelu} == CUDNN_POINTWISE_GELU_FWD && int{dnn_silu} == CUDNN_POINTWISE_SWISH_FWD &&
              int{dnn_gelu_by_tanh} == CUDNN_POINTWISE_GELU_APPROX_TANH_FWD &&
              dnn_cross_correlation == CUDNN_CROSS_CORRELATION && dnn_keep_nan == 1 &&
              dnn_heuristic_a == CUDNN_HEUR_MODE_A);
static_assert(int{dnn_note_tensor_core} == CUDNN_NUMERICAL_NOTE_TENSOR_CORE &&
              int{dnn_note_narrowed_inputs} == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS &&
              int{dnn_note_narrowed_sums} == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION &&
              int{dnn_note_fft} == CUDNN_NUMERICAL_NOTE_FFT &&
              int{dnn_note_not_deterministic} == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC &&
              int{dnn_note_winograd} == CUDNN_NUMERICAL_NOTE_WINOGRAD);
TEST(CApi, OfCuDnn) {}
#else
TEST(CApi, OfCuDnn) {
  GTEST_SKIP() << "cudnn_graph.h was not there when this was built";
}
#endif

}  // namespace
}  // namespace camshaft::cuda::api::c_api_test
