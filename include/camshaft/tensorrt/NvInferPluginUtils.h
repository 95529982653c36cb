// Parameters of TensorRT's own plugins, which others that begin as copies of these have, too. The names are those of
// TensorRT's documentation.
#pragma once

#include "camshaft/tensorrt/NvInfer.h"

namespace nvinfer1 {
namespace plugin {

struct Quadruple {
  int32_t data[4];
};

/// How boxes are encoded against their anchors.
enum class CodeTypeSSD : int32_t { CORNER = 0, CENTER_SIZE = 1, CORNER_SIZE = 2, TF_CENTER = 3 };

struct PriorBoxParameters {
  float *minSize, *maxSize, *aspectRatios;
  int32_t numMinSize, numMaxSize, numAspectRatios;
  bool flip, clip;
  float variance[4];
  int32_t imgH, imgW;
  float stepH, stepW;
  float offset;
};

struct RPROIParams {
  int32_t poolingH, poolingW;
  int32_t featureStride;
  int32_t preNmsTop, nmsMaxOut;
  int32_t anchorsRatioCount, anchorsScaleCount;
  float iouThreshold, minBoxSize, spatialScale;
};

struct GridAnchorParameters {
  float minSize, maxSize;
  float* aspectRatios;
  int32_t numAspectRatios, H, W;
  float variance[4];
};

struct DetectionOutputParameters {
  bool shareLocation, varianceEncodedInTarget;
  int32_t backgroundLabelId, numClasses, topK, keepTopK;
  float confidenceThreshold, nmsThreshold;
  CodeTypeSSD codeType;
  int32_t inputOrder[3];  // of locations, confidences and anchors
  bool confSigmoid, isNormalized;
  bool isBatchAgnostic{true};
};

/// Classes of classes: a node's parent, its group, and how large groups are.
struct softmaxTree {  // NOLINT: TensorRT's name
  int32_t* leaf;
  int32_t n;
  int32_t* parent;
  int32_t* child;
  int32_t* group;
  char** name;
  int32_t groups;
  int32_t* groupSize;
  int32_t* groupOffset;
};

struct RegionParameters {
  int32_t num, coords, classes;
  softmaxTree* smTree;
};

struct NMSParameters {
  bool shareLocation;
  int32_t backgroundLabelId, numClasses, topK, keepTopK;
  float scoreThreshold, iouThreshold;
  bool isNormalized;
};

}  // namespace plugin

template <>
constexpr int32_t EnumMax<plugin::CodeTypeSSD>() noexcept {
  return 4;
}

}  // namespace nvinfer1
