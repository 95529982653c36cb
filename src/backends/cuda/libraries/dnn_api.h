// The C functions of cuDNN 9 that are looked up at run time: those of its graphs; see c_api.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/libraries/blas_api.h"

namespace camshaft::cuda::api {

/// cudnnDataType_t
enum DnnType : int { dnn_f32 = 0, dnn_f16 = 2, dnn_bf16 = 9 };

/// cudnnBackendDescriptorType_t
enum DnnKind : int {
  dnn_pointwise = 0,
  dnn_convolution = 1,
  dnn_engine = 2,
  dnn_engine_config = 3,
  dnn_heuristic = 4,
  dnn_plan = 5,
  dnn_operation_convolution = 10,
  dnn_operation_pointwise = 13,
  dnn_graph = 15,
  dnn_arguments = 16,
  dnn_tensor = 17,
  dnn_matmul = 18,
  dnn_operation_matmul = 19,
  dnn_reduction = 21,
  dnn_operation_reduction = 22,
};

/// cudnnBackendAttributeType_t
enum DnnValue : int {
  dnn_value_library = 0,
  dnn_value_type = 1,
  dnn_value_boolean = 2,
  dnn_value_int64 = 3,
  dnn_value_float = 4,
  dnn_value_double = 5,
  dnn_value_pointer = 6,
  dnn_value_convolution_mode = 7,
  dnn_value_heuristic_mode = 8,
  dnn_value_nan = 10,
  dnn_value_note = 11,
  dnn_value_pointwise_mode = 14,
  dnn_value_descriptor = 15,
  dnn_value_reduction = 18,
};

/// cudnnBackendAttributeName_t
enum DnnAttribute : int {
  dnn_pointwise_mode = 0,
  dnn_pointwise_precision = 1,
  dnn_pointwise_nan = 2,
  dnn_convolution_precision = 100,
  dnn_convolution_mode = 101,
  dnn_convolution_dilations = 102,
  dnn_convolution_strides = 103,
  dnn_convolution_pads_after = 104,
  dnn_convolution_pads_before = 105,
  dnn_convolution_axes = 106,
  dnn_heuristic_mode = 200,
  dnn_heuristic_graph = 201,
  dnn_heuristic_results = 202,
  dnn_engine_config_engine = 300,
  dnn_plan_library = 400,
  dnn_plan_engine_config = 401,
  dnn_plan_workspace_bytes = 402,
  dnn_operation_convolution_alpha = 700,
  dnn_operation_convolution_beta = 701,
  dnn_operation_convolution_settings = 702,
  dnn_operation_convolution_weights = 703,
  dnn_operation_convolution_x = 704,
  dnn_operation_convolution_y = 705,
  dnn_operation_pointwise_settings = 750,
  dnn_operation_pointwise_x = 751,
  dnn_operation_pointwise_b = 752,
  dnn_operation_pointwise_y = 753,
  dnn_graph_library = 800,
  dnn_graph_operations = 801,
  dnn_tensor_alignment = 900,
  dnn_tensor_type = 901,
  dnn_tensor_sizes = 902,
  dnn_tensor_strides = 903,
  dnn_tensor_id = 906,
  dnn_tensor_is_virtual = 907,
  dnn_tensor_is_by_value = 908,
  dnn_arguments_ids = 1000,
  dnn_arguments_pointers = 1001,
  dnn_arguments_workspace = 1003,
  dnn_engine_notes = 1303,
  dnn_matmul_precision = 1500,
  dnn_operation_matmul_a = 1520,
  dnn_operation_matmul_b = 1521,
  dnn_operation_matmul_c = 1522,
  dnn_operation_matmul_settings = 1523,
  dnn_reduction_operator = 1600,
  dnn_reduction_precision = 1601,
  dnn_operation_reduction_x = 1610,
  dnn_operation_reduction_y = 1611,
  dnn_operation_reduction_settings = 1612,
};

/// cudnnPointwiseMode_t
enum DnnPointwise : int {
  dnn_add = 0,
  dnn_multiply = 1,
  dnn_divide = 6,
  dnn_subtract = 9,
  dnn_exp = 13,
  dnn_log = 15,
  dnn_relu = 100,
  dnn_sigmoid = 102,
  dnn_gelu = 104,
  dnn_silu = 106,
  dnn_gelu_by_tanh = 107,
};

/// cudnnReduceTensorOp_t
enum DnnReduction : int { dnn_sum = 0, dnn_max = 3 };

/// cudnnNanPropagation_t: relu(NaN) is NaN.
constexpr int dnn_keep_nan = 1;
/// cudnnConvolutionMode_t: as neural networks have it, the window not reversed.
constexpr int dnn_cross_correlation = 1;
/// cudnnBackendHeurMode_t: the one that is right for all.
constexpr int dnn_heuristic_a = 3;

/// cudnnBackendNumericalNote_t
enum DnnNote : int {
  dnn_note_tensor_core = 0,
  dnn_note_narrowed_inputs = 1,
  dnn_note_narrowed_sums = 2,
  dnn_note_fft = 3,
  dnn_note_not_deterministic = 4,
  dnn_note_winograd = 5,
};

// X(name, parameters): every function returns Result.
#define CAMSHAFT_CUDA_DNN(X)                                                                             \
  X(cudnnCreate, (Handle * library))                                                                     \
  X(cudnnGetProperty, (LibraryProperty which, int* value))                                               \
  X(cudnnSetStream, (Handle library, Handle stream))                                                     \
  X(cudnnBackendCreateDescriptor, (DnnKind kind, Handle * descriptor))                                   \
  X(cudnnBackendDestroyDescriptor, (Handle descriptor))                                                  \
  X(cudnnBackendFinalize, (Handle descriptor))                                                           \
  X(cudnnBackendSetAttribute,                                                                            \
    (Handle descriptor, DnnAttribute which, DnnValue type, int64_t count, const void* values))           \
  X(cudnnBackendGetAttribute,                                                                            \
    (Handle descriptor, DnnAttribute which, DnnValue type, int64_t most, int64_t * count, void* values)) \
  X(cudnnBackendExecute, (Handle library, Handle plan, Handle arguments))

/// libcudnn.so
struct Dnn {
#define CAMSHAFT_CUDA_MEMBER(name, parameters) Result(*name) parameters = nullptr;
  CAMSHAFT_CUDA_DNN(CAMSHAFT_CUDA_MEMBER)
#undef CAMSHAFT_CUDA_MEMBER
};

}  // namespace camshaft::cuda::api
