// Operators that make tensors out of sizes and scalars, and those whose parameters are data.
#include <bit>

#include "ir/ops/dynamic.h"
#include "ir/ops/generate.h"
#include "ir/ops/random.h"
#include "onnx/export/export_operator.h"
#include "onnx/onnx_dtype.h"

namespace camshaft::onnx {

namespace {

// ONNX's seed is of f32, and ours has the bits of it in f64. Other runtimes draw other numbers by the same seed anyway.
double seed_attribute(int64_t seed) {
  return std::bit_cast<double>(seed);
}

}  // namespace

void export_as(ExportContext& c, const ops::DimsTensor& op) {
  const auto count = static_cast<int64_t>(op.elements.size());
  const bool is_list = !op.scalar, is_i64 = op.dtype == DType::i64;
  const std::string elements = c.sizes(op.elements);
  if (is_i64 && is_list) return c.result("Identity", {elements});
  const Attributes to = Attributes().integer("to", dtype_to_onnx(op.dtype));
  if (is_list) return c.result("Cast", {elements}, to);
  if (is_i64) return c.result("Squeeze", {elements, c.ints({0})});
  c.result("Cast", {c.reshape(elements, {count}, {})}, to);
}

void export_as(ExportContext& c, const ops::ShapeOf& op) {
  if (op.start >= op.end) return c.result("Identity", {c.constant(Tensor(DType::i64, {0}))});
  Attributes attributes;
  if (op.start != 0) attributes.integer("start", op.start);
  if (op.end != c.rank(0)) attributes.integer("end", op.end);
  c.result("Shape", {c.input(0)}, std::move(attributes));
}

void export_as(ExportContext& c, const ops::Range&) {
  std::vector<std::string> inputs;
  for (size_t i = 0; i < 3; ++i) inputs.push_back(c.reshape(c.input(i), c.shape(i), {}));
  const bool is_narrow = c.dtype(0) == DType::f16 || c.dtype(0) == DType::bf16;
  c.result({"Range", is_narrow ? 27 : 0}, std::move(inputs));
}

void export_as(ExportContext& c, const ops::DynamicSqueeze&) {
  c.result("Squeeze", {c.input(0), c.reshape(c.indices(1), c.shape(1), c.shape(1).empty() ? Shape{1} : c.shape(1))});
}

void export_as(ExportContext& c, const ops::DynamicUnsqueeze&) {
  c.result("Unsqueeze", {c.input(0), c.reshape(c.indices(1), c.shape(1), c.shape(1).empty() ? Shape{1} : c.shape(1))});
}

void export_as(ExportContext& c, const ops::DynamicTile&) {
  c.result("Tile", {c.input(0), c.indices(1)});
}

void export_as(ExportContext& c, const ops::DynamicSplit& op) {
  c.result("Split", {c.input(0), c.indices(1)}, Attributes().integer("axis", op.axis));
}

void export_as(ExportContext& c, const ops::DynamicPad& op) {
  Attributes attributes;
  if (op.mode != ops::PadMode::constant)
    attributes.text("mode", EnumNames<ops::PadMode>::values[static_cast<size_t>(op.mode)]);
  c.result("Pad", {c.input(0), c.indices(1), c.input(2), c.input(3)}, std::move(attributes));
}

void export_as(ExportContext& c, const ops::RandomTensor& op) {
  const bool normal = op.distribution == ops::Distribution::normal;
  const bool is_fixed = [&] {
    for (const Dim& size : op.shape)
      if (!size.is_constant()) return false;
    return !c.has(0);
  }();
  const char* name =
      is_fixed ? (normal ? "RandomNormal" : "RandomUniform") : (normal ? "RandomNormalLike" : "RandomUniformLike");
  Attributes attributes = Attributes().integer("dtype", dtype_to_onnx(op.dtype));
  attributes.number(normal ? "mean" : "low", op.a).number(normal ? "scale" : "high", op.b);
  attributes.number("seed", seed_attribute(op.seed));
  if (is_fixed) return c.result(name, {}, attributes.integers("shape", c.fixed(op.shape, "the shape")));
  const std::string like = c.has(0) ? c.input(0) : c.add("ConstantOfShape", {c.sizes(op.shape)});
  c.result(name, {like}, std::move(attributes));
}

void export_as(ExportContext& c, const ops::Multinomial& op) {
  c.result("Multinomial", {c.input(0)},
           Attributes()
               .integer("sample_size", op.samples)
               .integer("dtype", dtype_to_onnx(op.dtype))
               .number("seed", seed_attribute(op.seed)));
}

}  // namespace camshaft::onnx
