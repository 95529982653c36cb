// Non-maximum suppression with results of a fixed number, as TensorRT's plugins give them.
#pragma once

#include "onnx/convert_context.h"

namespace camshaft::onnx {

/// What EfficientNMS, BatchedNMS and their like have in common.
struct Suppression {
  double score_threshold = 0, iou_threshold = 0;
  int64_t most = 0;        ///< boxes that an image keeps
  int64_t candidates = 0;  ///< boxes of a class that are compared; 0: all
  int64_t background = -1;
  bool is_agnostic = false;    ///< boxes of one class suppress those of others
  bool counts_pixels = false;  ///< a box ends behind its last pixel
  double no_class = 0;         ///< of the places that are not filled
  DType class_dtype = DType::i32;
};

/// boxes f32[b, n, 4] or [b, n, classes, 4], corners, or of 5 numbers (see ops::NonMaxSuppression); scores f32[b, n,
/// classes] -> how many boxes each image has (i32[b, 1]), and of the `most` best by falling score: the boxes, their
/// scores, their classes, which of the n they are (i64), and whether they are there (bool).
Values suppressed(ConvertContext& c, ValueId boxes, ValueId scores, const Suppression& how);

/// Boxes [.., 4] as centre and size -> as corners.
ValueId corners_of_centres(ConvertContext& c, ValueId boxes);

}  // namespace camshaft::onnx
