// What the converters of ai.onnx.ml share.
#pragma once

#include "ir/ops/score_transform.h"
#include "onnx/converters.h"

namespace camshaft::onnx {

/// "NONE", "LOGISTIC", …; invalid_model for another word.
ops::PostTransform post_transform(ConvertContext& c);

/// [rows, features], of the node's first input: a vector is one row. invalid_model for other ranks.
ValueId rows_of_features(ConvertContext& c);

/// classlabels_strings or classlabels_<ints_name>, as a tensor; undefined when both are absent.
Tensor class_labels(ConvertContext& c, std::string_view ints_name);

/// The list as a tensor, undefined when it is absent or empty.
Tensor floats_tensor(ConvertContext& c, std::string_view name);
Tensor ints_tensor(ConvertContext& c, std::string_view name);
Tensor strings_tensor(ConvertContext& c, std::string_view name);

/// Appends an operator with several outputs that are inner to the node, named after its first output and `names`.
Values add_parts(ConvertContext& c, Op op, Values inputs, const std::vector<std::string>& names);

}  // namespace camshaft::onnx
