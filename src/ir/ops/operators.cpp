#include "ir/ops/operators.h"

#include "ir/ops/attention.h"
#include "ir/ops/contract.h"
#include "ir/ops/control_flow.h"
#include "ir/ops/dynamic.h"
#include "ir/ops/generate.h"
#include "ir/ops/image_decoder.h"
#include "ir/ops/index.h"
#include "ir/ops/index_map.h"
#include "ir/ops/linear_attention.h"
#include "ir/ops/lookup.h"
#include "ir/ops/map.h"
#include "ir/ops/move.h"
#include "ir/ops/optional.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/quantize.h"
#include "ir/ops/quantized.h"
#include "ir/ops/random.h"
#include "ir/ops/recurrent.h"
#include "ir/ops/reduce.h"
#include "ir/ops/region.h"
#include "ir/ops/resize.h"
#include "ir/ops/rotary_embedding.h"
#include "ir/ops/row_moments.h"
#include "ir/ops/sample.h"
#include "ir/ops/scan.h"
#include "ir/ops/select.h"
#include "ir/ops/sequence.h"
#include "ir/ops/signal.h"
#include "ir/ops/strings.h"
#include "ir/ops/support_vectors.h"
#include "ir/ops/tree_ensemble.h"
#include "ir/ops/window_ops.h"

namespace camshaft {

namespace {

template <Operator... Ops>
OpRegistry registry_of() {
  OpRegistry registry;
  (registry.add<Ops>(), ...);
  return registry;
}

}  // namespace

const OpRegistry& operators() {
  static const OpRegistry registry = registry_of<    //
      ops::Pointwise, ops::Cast, ops::BitCast,       //
      ops::MatMul, ops::Conv, ops::ConvTranspose,    //
      ops::IntegerMatMul, ops::IntegerConv,          //
      ops::Quantize, ops::Dequantize,                //
      ops::DynamicQuantize,                          //
      ops::Attention, ops::RotaryEmbedding,          //
      ops::Reduce, ops::ArgReduce,                   //
      ops::Softmax, ops::LayerNorm, ops::GroupNorm,  //
      ops::RowMoments, ops::RowNorm,                 //
      ops::Pool, ops::Resize,                        //
      ops::Reshape, ops::Transpose, ops::Expand,     //
      ops::Concat, ops::Slice, ops::DynamicSlice,    //
      ops::Pad, ops::Gather, ops::GatherElements,    //
      ops::IndexMap,                                 //
      ops::ScatterND, ops::GatherND,                 //
      ops::ScatterElements, ops::TensorScatter,      //
      ops::ReverseSequence, ops::Cumulative,         //
      ops::TopK, ops::NonZero, ops::Unique,          //
      ops::NonMaxSuppression, ops::MaxPoolIndices,   //
      ops::RoiAlign, ops::MaxRoiPool,                //
      ops::GridSample, ops::DeformConv,              //
      ops::Col2Im, ops::Determinant,                 //
      ops::Dft, ops::Stft, ops::MelWeights,          //
      ops::DimsTensor, ops::ShapeOf, ops::Range,     //
      ops::DynamicReduce, ops::DynamicSqueeze,       //
      ops::DynamicUnsqueeze, ops::DynamicTile,       //
      ops::DynamicSplit, ops::DynamicPad,            //
      ops::RandomTensor, ops::Multinomial,           //
      ops::DynamicResize,                            //
      ops::If, ops::Check, ops::Loop, ops::Scan,     //
      ops::Recurrent, ops::LinearAttention,          //
      ops::TreeEnsemble, ops::SupportVectorVote,     //
      ops::PairwiseDistance, ops::ScoreTransform,    //
      ops::FindKeys,                                 //
      ops::RowsToMaps, ops::MapEntries,              //
      ops::StringConcat, ops::StringSplit,           //
      ops::StringNormalize, ops::RegexMatch,         //
      ops::CountTerms, ops::Tokenize,                //
      ops::ImageDecoder,                             //
      ops::SequenceConstruct, ops::SequenceInsert, ops::SequenceErase, ops::SequenceAt, ops::SequenceLength,
      ops::SplitToSequence, ops::ConcatFromSequence, ops::SequenceMap,  //
      ops::MakeOptional, ops::OptionalGetElement, ops::OptionalHasElement, ops::Region>();
  return registry;
}

}  // namespace camshaft
