// The closed set of operators, as a list of types: the registry makes them by name, the reference evaluates them by
// type. What belongs to every operator walks over this list, so that none can be forgotten.
#pragma once

#include "ir/ops/attention.h"
#include "ir/ops/collective.h"
#include "ir/ops/contract.h"
#include "ir/ops/control_flow.h"
#include "ir/ops/dynamic.h"
#include "ir/ops/float8.h"
#include "ir/ops/gather_matmul.h"
#include "ir/ops/generate.h"
#include "ir/ops/image_decoder.h"
#include "ir/ops/index.h"
#include "ir/ops/index_map.h"
#include "ir/ops/linear_attention.h"
#include "ir/ops/lookup.h"
#include "ir/ops/map.h"
#include "ir/ops/move.h"
#include "ir/ops/optional.h"
#include "ir/ops/paged.h"
#include "ir/ops/paged_update.h"
#include "ir/ops/plugin.h"
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
#include "ir/ops/weight_only.h"
#include "ir/ops/window_ops.h"

namespace camshaft::ops {

template <Operator... Ops>
struct OperatorList {};

using AllOperators = OperatorList<      //
    Pointwise, Cast, BitCast,           //
    MatMul, Conv, ConvTranspose,        //
    IntegerMatMul, IntegerConv,         //
    Float8MatMul, Float8Conv,           //
    WeightOnlyMatMul, ReadBytesAs,      //
    Quantize, Dequantize,               //
    DynamicQuantize, RoundBlocks,       //
    Attention, RotaryEmbedding,         //
    Reduce, ArgReduce,                  //
    Softmax, LayerNorm, GroupNorm,      //
    RowMoments, RowNorm,                //
    Pool, Resize,                       //
    Reshape, Transpose, Expand,         //
    Concat, Slice, DynamicSlice,        //
    Pad, Gather, GatherElements,        //
    IndexMap,                           //
    ScatterND, GatherND,                //
    ScatterElements, TensorScatter,     //
    ReverseSequence, Cumulative,        //
    TopK, NonZero, Unique,              //
    NonMaxSuppression, MaxPoolIndices,  //
    RoiAlign, MaxRoiPool,               //
    GridSample, DeformConv,             //
    Col2Im, Determinant,                //
    Dft, Stft, MelWeights,              //
    DimsTensor, ShapeOf, Range,         //
    DynamicReduce, DynamicSqueeze,      //
    DynamicUnsqueeze, DynamicTile,      //
    DynamicSplit, DynamicPad,           //
    RandomTensor, Multinomial,          //
    DynamicResize,                      //
    If, Check, Loop, Scan,              //
    Recurrent, LinearAttention,         //
    PagedStore, PagedQuantize,          //
    PagedAttention, PagedUpdate,        //
    GatherMatMul,                       //
    TreeEnsemble, SupportVectorVote,    //
    PairwiseDistance, ScoreTransform,   //
    FindKeys, Collective,               //
    RowsToMaps, MapEntries,             //
    StringConcat, StringSplit,          //
    StringNormalize, RegexMatch,        //
    CountTerms, Tokenize,               //
    ImageDecoder,                       //
    SequenceConstruct, SequenceInsert, SequenceErase, SequenceAt, SequenceLength, SplitToSequence, ConcatFromSequence,
    SequenceMap,  //
    MakeOptional, OptionalGetElement, OptionalHasElement, Plugin, Region>;

}  // namespace camshaft::ops
