// Attention as cuDNN describes it.
#pragma once

#include <optional>

#include "ir/ops/attention.h"

namespace camshaft::cuda {

/// An attention of tensors with four axes: batch, heads, rows and columns. Several heads in a row may share a head of
/// keys and values.
struct DnnAttentionShape {
  struct Access {
    int64_t offset = 0;
    Dims dims, strides;
  };
  Access query, key, value, result;
  std::optional<Access> mask;  ///< an axis has one element where all along it share that
};

/// At the values of the symbols; nullopt for what four axes do not describe, attention of nothing, more masks than one,
/// capped scores, and rows whose columns lie apart, or that do not begin at whole pieces of 16 bytes in a type of 16
/// bits.
std::optional<DnnAttentionShape> dnn_attention_shape(const ops::Attention& op, const SymbolBindings& symbols);

}  // namespace camshaft::cuda
