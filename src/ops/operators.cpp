#include "ops/operators.h"

#include "ops/attention.h"
#include "ops/contract.h"
#include "ops/control_flow.h"
#include "ops/dynamic.h"
#include "ops/generate.h"
#include "ops/image_decoder.h"
#include "ops/index.h"
#include "ops/index_map.h"
#include "ops/linear_attention.h"
#include "ops/lookup.h"
#include "ops/map.h"
#include "ops/move.h"
#include "ops/optional.h"
#include "ops/pointwise.h"
#include "ops/quantized.h"
#include "ops/random.h"
#include "ops/recurrent.h"
#include "ops/reduce.h"
#include "ops/region.h"
#include "ops/resize.h"
#include "ops/rotary_embedding.h"
#include "ops/row_moments.h"
#include "ops/sample.h"
#include "ops/scan.h"
#include "ops/select.h"
#include "ops/sequence.h"
#include "ops/signal.h"
#include "ops/strings.h"
#include "ops/support_vectors.h"
#include "ops/tree_ensemble.h"
#include "ops/window_ops.h"

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
