// How each operator of the IR is written. An operator without an overload here does not compile, one without a
// definition in ops_<group>.cpp does not link.
#pragma once

#include "ir/ops/all_operators.h"
#include "onnx/export/export_context.h"

namespace camshaft::onnx {

/// Appends ONNX nodes that compute the results of the context's node, which has this operator.
void export_operator(ExportContext& c, const Op& op);

void export_as(ExportContext& c, const ops::Pointwise& op);
void export_as(ExportContext& c, const ops::Cast& op);
void export_as(ExportContext& c, const ops::BitCast& op);
void export_as(ExportContext& c, const ops::MatMul& op);
void export_as(ExportContext& c, const ops::Conv& op);
void export_as(ExportContext& c, const ops::ConvTranspose& op);
void export_as(ExportContext& c, const ops::IntegerMatMul& op);
void export_as(ExportContext& c, const ops::IntegerConv& op);
void export_as(ExportContext& c, const ops::Float8MatMul& op);
void export_as(ExportContext& c, const ops::Float8Conv& op);
void export_as(ExportContext& c, const ops::WeightOnlyMatMul& op);
void export_as(ExportContext& c, const ops::ReadBytesAs& op);
void export_as(ExportContext& c, const ops::Quantize& op);
void export_as(ExportContext& c, const ops::Dequantize& op);
void export_as(ExportContext& c, const ops::DynamicQuantize& op);
void export_as(ExportContext& c, const ops::RoundBlocks& op);
void export_as(ExportContext& c, const ops::Attention& op);
void export_as(ExportContext& c, const ops::RotaryEmbedding& op);
void export_as(ExportContext& c, const ops::Reduce& op);
void export_as(ExportContext& c, const ops::ArgReduce& op);
void export_as(ExportContext& c, const ops::Softmax& op);
void export_as(ExportContext& c, const ops::LayerNorm& op);
void export_as(ExportContext& c, const ops::GroupNorm& op);
void export_as(ExportContext& c, const ops::RowMoments& op);
void export_as(ExportContext& c, const ops::RowNorm& op);
void export_as(ExportContext& c, const ops::Pool& op);
void export_as(ExportContext& c, const ops::Resize& op);
void export_as(ExportContext& c, const ops::Reshape& op);
void export_as(ExportContext& c, const ops::Transpose& op);
void export_as(ExportContext& c, const ops::Expand& op);
void export_as(ExportContext& c, const ops::Concat& op);
void export_as(ExportContext& c, const ops::Slice& op);
void export_as(ExportContext& c, const ops::DynamicSlice& op);
void export_as(ExportContext& c, const ops::Pad& op);
void export_as(ExportContext& c, const ops::Gather& op);
void export_as(ExportContext& c, const ops::GatherElements& op);
void export_as(ExportContext& c, const ops::IndexMap& op);
void export_as(ExportContext& c, const ops::ScatterND& op);
void export_as(ExportContext& c, const ops::GatherND& op);
void export_as(ExportContext& c, const ops::ScatterElements& op);
void export_as(ExportContext& c, const ops::TensorScatter& op);
void export_as(ExportContext& c, const ops::ReverseSequence& op);
void export_as(ExportContext& c, const ops::Cumulative& op);
void export_as(ExportContext& c, const ops::TopK& op);
void export_as(ExportContext& c, const ops::NonZero& op);
void export_as(ExportContext& c, const ops::Unique& op);
void export_as(ExportContext& c, const ops::NonMaxSuppression& op);
void export_as(ExportContext& c, const ops::MaxPoolIndices& op);
void export_as(ExportContext& c, const ops::RoiAlign& op);
void export_as(ExportContext& c, const ops::MaxRoiPool& op);
void export_as(ExportContext& c, const ops::GridSample& op);
void export_as(ExportContext& c, const ops::DeformConv& op);
void export_as(ExportContext& c, const ops::Col2Im& op);
void export_as(ExportContext& c, const ops::Determinant& op);
void export_as(ExportContext& c, const ops::Dft& op);
void export_as(ExportContext& c, const ops::Stft& op);
void export_as(ExportContext& c, const ops::MelWeights& op);
void export_as(ExportContext& c, const ops::DimsTensor& op);
void export_as(ExportContext& c, const ops::ShapeOf& op);
void export_as(ExportContext& c, const ops::Range& op);
void export_as(ExportContext& c, const ops::DynamicReduce& op);
void export_as(ExportContext& c, const ops::DynamicSqueeze& op);
void export_as(ExportContext& c, const ops::DynamicUnsqueeze& op);
void export_as(ExportContext& c, const ops::DynamicTile& op);
void export_as(ExportContext& c, const ops::DynamicSplit& op);
void export_as(ExportContext& c, const ops::DynamicPad& op);
void export_as(ExportContext& c, const ops::RandomTensor& op);
void export_as(ExportContext& c, const ops::Multinomial& op);
void export_as(ExportContext& c, const ops::DynamicResize& op);
void export_as(ExportContext& c, const ops::If& op);
void export_as(ExportContext& c, const ops::Check& op);
void export_as(ExportContext& c, const ops::Loop& op);
void export_as(ExportContext& c, const ops::Scan& op);
void export_as(ExportContext& c, const ops::Recurrent& op);
void export_as(ExportContext& c, const ops::LinearAttention& op);
void export_as(ExportContext& c, const ops::GatherMatMul& op);
void export_as(ExportContext& c, const ops::PagedStore& op);
void export_as(ExportContext& c, const ops::PagedQuantize& op);
void export_as(ExportContext& c, const ops::PagedAttention& op);
void export_as(ExportContext& c, const ops::PagedUpdate& op);
void export_as(ExportContext& c, const ops::TreeEnsemble& op);
void export_as(ExportContext& c, const ops::Collective& op);
void export_as(ExportContext& c, const ops::SupportVectorVote& op);
void export_as(ExportContext& c, const ops::PairwiseDistance& op);
void export_as(ExportContext& c, const ops::ScoreTransform& op);
void export_as(ExportContext& c, const ops::FindKeys& op);
void export_as(ExportContext& c, const ops::RowsToMaps& op);
void export_as(ExportContext& c, const ops::MapEntries& op);
void export_as(ExportContext& c, const ops::StringConcat& op);
void export_as(ExportContext& c, const ops::StringSplit& op);
void export_as(ExportContext& c, const ops::StringNormalize& op);
void export_as(ExportContext& c, const ops::RegexMatch& op);
void export_as(ExportContext& c, const ops::CountTerms& op);
void export_as(ExportContext& c, const ops::Tokenize& op);
void export_as(ExportContext& c, const ops::ImageDecoder& op);
void export_as(ExportContext& c, const ops::SequenceConstruct& op);
void export_as(ExportContext& c, const ops::SequenceInsert& op);
void export_as(ExportContext& c, const ops::SequenceErase& op);
void export_as(ExportContext& c, const ops::SequenceAt& op);
void export_as(ExportContext& c, const ops::SequenceLength& op);
void export_as(ExportContext& c, const ops::SplitToSequence& op);
void export_as(ExportContext& c, const ops::ConcatFromSequence& op);
void export_as(ExportContext& c, const ops::SequenceMap& op);
void export_as(ExportContext& c, const ops::MakeOptional& op);
void export_as(ExportContext& c, const ops::OptionalGetElement& op);
void export_as(ExportContext& c, const ops::OptionalHasElement& op);
void export_as(ExportContext& c, const ops::Plugin& op);
void export_as(ExportContext& c, const ops::Region& op);

}  // namespace camshaft::onnx
