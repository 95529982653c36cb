// Collectives: those of the domain camshaft, and TensorRT's DistCollective, which Polygraphy writes
// (polygraphy multi-device shard).
#include <fmt/format.h>

#include <iterator>

#include "ir/ops/collective.h"
#include "onnx/converters.h"

namespace camshaft::onnx {

namespace {

using ops::CollectiveKind;

template <class Enum>
std::optional<Enum> enum_named(std::string_view name) {
  const auto& names = EnumNames<Enum>::values;
  for (size_t i = 0; i < std::size(names); ++i)
    if (names[i] == name) return static_cast<Enum>(i);
  return std::nullopt;
}

template <class Enum>
Enum enum_named(ConvertContext& c, std::string_view what, const std::string& name) {
  if (const auto found = enum_named<Enum>(name)) return *found;
  c.invalid(fmt::format("{} is '{}'; {} are possible", what, name, fmt::join(EnumNames<Enum>::values, ", ")));
}

int64_t group_size_of(ConvertContext& c) {
  const int64_t ranks = c.int_attribute("group_size");
  if (ranks < 1) c.invalid(fmt::format("group_size is {}; 1 or more ranks are possible", ranks));
  return ranks;
}

// (x) -> y. Attributes: group_size, the number of ranks; axis, 0 by default; reduce_op, "sum" by default; root.
template <CollectiveKind kind>
Values collective(ConvertContext& c) {
  ops::Collective op{.kind = kind, .ranks = group_size_of(c), .sequence = c.number_collective()};
  if (op.has_axis()) op.axis = c.axis(c.int_attribute("axis", 0), c.rank(c.input(0)));
  if (op.reduces())
    op.reduction = enum_named<ops::CollectiveReduction>(c, "reduce_op", c.string_attribute("reduce_op", "sum"));
  if (kind == CollectiveKind::broadcast) op.root = c.int_attribute("root", 0);
  return c.result(op, {c.input(0)});
}

// Along the first axis, as NCCL does.
Values dist_collective(ConvertContext& c) {
  ops::Collective op{.ranks = group_size_of(c), .sequence = c.number_collective()};
  const std::string kind = c.string_attribute("collective_operation");
  if (kind == "reduce" || kind == "gather" || kind == "scatter")
    c.unsupported(fmt::format("collective_operation '{}', whose results differ in shape between ranks", kind));
  op.kind = enum_named<CollectiveKind>(c, "collective_operation", kind);
  if (op.reduces())
    op.reduction = enum_named<ops::CollectiveReduction>(c, "reduce_op", c.string_attribute("reduce_op", "sum"));
  if (op.kind == CollectiveKind::broadcast) op.root = c.int_attribute("root", 0);
  if (const auto groups = c.ints_attribute("groups"); groups && !groups->empty()) {
    bool has_all = std::ssize(*groups) == op.ranks;
    for (size_t i = 0; has_all && i < groups->size(); ++i) has_all = (*groups)[i] == static_cast<int64_t>(i);
    if (!has_all) c.unsupported("groups of some of the ranks");
  }
  return c.result(op, {c.input(0)});
}

constexpr Converter collective_table[] = {
    {"AllGather", collective<CollectiveKind::all_gather>},
    {"AllReduce", collective<CollectiveKind::all_reduce>},
    {"AllToAll", collective<CollectiveKind::all_to_all>},
    {"Broadcast", collective<CollectiveKind::broadcast>},
    {"ReduceScatter", collective<CollectiveKind::reduce_scatter>},
};
constexpr Converter tensorrt_collective_table[] = {
    {"DistCollective", dist_collective},
};

}  // namespace

std::span<const Converter> collective_converters() {
  return collective_table;
}
std::span<const Converter> tensorrt_collective_converters() {
  return tensorrt_collective_table;
}

}  // namespace camshaft::onnx
