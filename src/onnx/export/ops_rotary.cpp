// Rotary embeddings of dense tensors: as ONNX's operator, or spelled out where the tables are of other shapes.
#include "ir/ops/rotary_embedding.h"
#include "onnx/export/export_operator.h"

namespace camshaft::onnx {

namespace {

std::string part(ExportContext& c, const std::string& x, int64_t axis, int64_t from, int64_t to, int64_t step = 1) {
  std::vector<std::string> inputs{x, c.ints({from}), c.ints({to}), c.ints({axis})};
  if (step != 1) inputs.push_back(c.ints({step}));
  return c.add("Slice", std::move(inputs));
}

/// As ONNX's operator, whose tables are [batch, length, angles], where these are of that form.
bool as_operator(ExportContext& c, const ops::RotaryEmbedding& op) {
  using enum ops::RotaryEmbedding::Input;
  const Shape &x = op.shape, &cosine = c.shape(in_cosine), &sine = c.shape(in_sine);
  if (x.size() != 4 || cosine.size() != 4 || cosine != sine || c.dtype(in_x) != c.dtype(in_cosine)) return false;
  // [batch, heads, length, head], or the length before the heads.
  const bool heads_first = cosine[1] == Dim(1) && cosine[2] == x[2];
  if (!heads_first && (!(cosine[2] == Dim(1)) || cosine[1] != x[1])) return false;
  const auto heads = x[2].as_constant();
  if (!heads_first && !heads) return false;
  if (!(cosine[0] == Dim(1)) && cosine[0] != x[0]) return false;
  Shape one{cosine[0], cosine[heads_first ? 2 : 1], cosine[3]}, all = one;
  all[0] = x[0];
  const auto table = [&](size_t i) { return c.expand(c.reshape(c.input(i), cosine, one), one, all); };
  Attributes attributes = Attributes().flag("interleaved", op.interleaved);
  if (!(x[3] == Dim(op.rotated))) attributes.integer("rotary_embedding_dim", op.rotated);
  const Operator rotary{"RotaryEmbedding", 23};
  const std::string cosines = table(in_cosine), sines = table(in_sine), input = c.input(in_x);
  if (heads_first) {
    c.result(rotary, {input, cosines, sines}, std::move(attributes));
    return true;
  }
  const Shape packed{x[0], x[1], x[2] * x[3]};
  const std::string rows = c.reshape(input, x, packed);
  const std::string y = c.add(rotary, {rows, cosines, sines}, attributes.integer("num_heads", *heads));
  const ReshapeTarget target = reshape_target(packed, x);
  c.result("Reshape", {y, c.sizes(target.sizes)}, Attributes().flag("allowzero", target.allow_zero));
  return true;
}

}  // namespace

void export_as(ExportContext& c, const ops::RotaryEmbedding& op) {
  using enum ops::RotaryEmbedding::Input;
  if (!(op ==
        ops::dense_rotary_embedding(c.shape(in_x), c.shape(in_cosine), c.shape(in_sine), op.rotated, op.interleaved)))
    c.unsupported(
        "it reads heads where they lie in a projection, as passes behind canonicalisation make it; write the "
        "graph as it is before them");
  if (as_operator(c, op)) return;
  const DType to = c.dtype(in_x), tables = c.dtype(in_cosine);
  const int64_t axis = c.rank(in_x) - 1, half = op.rotated / 2;
  if (half == 0) return c.result("Identity", {c.input(in_x)});
  const std::string x = to == tables ? c.input(in_x) : c.cast(c.input(in_x), tables);
  const std::string first = op.interleaved ? part(c, x, axis, 0, op.rotated, 2) : part(c, x, axis, 0, half);
  const std::string second = op.interleaved ? part(c, x, axis, 1, op.rotated, 2) : part(c, x, axis, half, op.rotated);
  const std::string cosine = c.input(in_cosine), sine = c.input(in_sine);
  const std::string a_cosine = c.add("Mul", {first, cosine}), b_sine = c.add("Mul", {second, sine});
  const std::string b_cosine = c.add("Mul", {second, cosine}), a_sine = c.add("Mul", {first, sine});
  std::vector<std::string> parts{c.add("Sub", {a_cosine, b_sine}), c.add("Add", {b_cosine, a_sine})};
  const Dim& width = op.shape.back();
  if (op.interleaved) {
    Shape apart(op.shape.begin(), op.shape.end() - 1), together = apart;
    apart.insert(apart.end(), {Dim(half), Dim(2)});
    together.emplace_back(op.rotated);
    for (std::string& p : parts) p = c.add("Unsqueeze", {p, c.ints({axis + 1})});
    const std::string joined = c.add("Concat", std::move(parts), Attributes().integer("axis", axis + 1));
    parts = {c.reshape(joined, apart, together)};
  }
  if (!(width == Dim(op.rotated))) {
    const std::string end = c.sizes({width});
    parts.push_back(c.add("Slice", {x, c.ints({op.rotated}), end, c.ints({axis})}));
  }
  if (to == tables && parts.size() > 1) return c.result("Concat", std::move(parts), Attributes().integer("axis", axis));
  const std::string y =
      parts.size() == 1 ? parts[0] : c.add("Concat", std::move(parts), Attributes().integer("axis", axis));
  c.result("Identity", {to == tables ? y : c.cast(y, to)});
}

}  // namespace camshaft::onnx
