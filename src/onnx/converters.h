// The table of ONNX operators that can be converted.
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "onnx/convert_context.h"

namespace camshaft::onnx {

/// Appends to the graph what an ONNX node computes and returns its outputs; trailing ones that the node does not use
/// may be left out.
using Convert = Values (*)(ConvertContext&);

struct Converter {
  std::string_view op_type;
  Convert convert;
  int64_t since = 1;  ///< the operator set from which on this converter reads the operator
};

constexpr int64_t newest_opset = 27;  ///< of onnx 1.22

// One list a group; operators of the default domain if not said otherwise.
std::span<const Converter> activation_converters();
std::span<const Converter> attention_converters();
std::span<const Converter> contraction_converters();
std::span<const Converter> control_flow_converters();
std::span<const Converter> feature_converters();  ///< domain ai.onnx.ml
std::span<const Converter> generator_converters();
std::span<const Converter> image_converters();
std::span<const Converter> indexing_converters();
std::span<const Converter> loss_converters();
std::span<const Converter> linear_model_converters();               ///< domain ai.onnx.ml
std::span<const Converter> map_converters();                        ///< domain ai.onnx.ml
std::span<const Converter> microsoft_attention_converters();        ///< domain com.microsoft
std::span<const Converter> microsoft_converters();                  ///< domain com.microsoft
std::span<const Converter> microsoft_fused_converters();            ///< domain com.microsoft
std::span<const Converter> microsoft_other_converters();            ///< domain com.microsoft
std::span<const Converter> microsoft_packed_converters();           ///< domain com.microsoft
std::span<const Converter> microsoft_paged_converters();            ///< domain com.microsoft
std::span<const Converter> camshaft_converters();                   ///< domain camshaft
std::span<const Converter> collective_converters();                 ///< domain camshaft
std::span<const Converter> microsoft_quantized_converters();        ///< domain com.microsoft
std::span<const Converter> microsoft_quantized_layer_converters();  ///< domain com.microsoft
std::span<const Converter> microsoft_string_converters();           ///< domain com.microsoft
std::span<const Converter> microsoft_weight_converters();           ///< domain com.microsoft
std::span<const Converter> mmcv_converters();                       ///< domains mmcv and mmdeploy
std::span<const Converter> normalization_converters();
std::span<const Converter> optional_converters();
std::span<const Converter> pointwise_converters();
std::span<const Converter> pooling_converters();
std::span<const Converter> preview_converters();  ///< domain ai.onnx.preview
std::span<const Converter> random_converters();
std::span<const Converter> quantization_converters();
std::span<const Converter> recurrent_converters();
std::span<const Converter> reduction_converters();
std::span<const Converter> resize_converters();
std::span<const Converter> select_converters();
std::span<const Converter> scan_converters();
std::span<const Converter> sequence_converters();
std::span<const Converter> shape_converters();
std::span<const Converter> signal_converters();
std::span<const Converter> string_converters();
std::span<const Converter> tensorrt_block_converters();
std::span<const Converter> tensorrt_converters();             ///< domain TRT
std::span<const Converter> tensorrt_collective_converters();  ///< domain TRT
std::span<const Converter> tree_ensemble_converters();        ///< domain ai.onnx.ml
std::span<const Converter> vision_converters();

/// The first version of the default operator set from which on the operator means what its converter reads.
int64_t first_readable_opset(std::string_view op_type);

/// An operator that models may use, from an operator set of its domain on.
struct KnownOperator {
  std::string_view domain;  ///< "" for the default one
  std::string_view op_type;
  int64_t since = 1;
};
/// All of them, ordered by domain and name.
std::vector<KnownOperator> known_operators();

/// Null when the operator is not known in that version. `domain` may be spelt "" or "ai.onnx"; operators of TensorRT's
/// are found in either, by their ending "_TRT".
const Converter* find_converter(std::string_view domain, std::string_view op_type, int64_t opset);

}  // namespace camshaft::onnx
