#include "backends/cpu/tactics/rotary_embedding.h"

#include <algorithm>
#include <array>

#include "backends/cpu/kernels/attention/rotary_embedding.h"
#include "backends/cpu/kernels/move/gather.h"
#include "backends/cpu/tactics/simple_kernel.h"
#include "base/divide_up.h"
#include "ir/ops/move.h"
#include "ir/ops/region.h"
#include "ir/ops/rotary_embedding.h"
#include "ir/ops/strides.h"
#include "ir/region.h"

namespace camshaft::cpu {

namespace {

/// A rotary embedding, or a chain of it behind gathers of its tables' rows (passes/chain_rotary_tables.h). Reshapes
/// between them do not count: it reads dense tables by strides.
struct RotaryView {
  const ops::RotaryEmbedding* op;
  std::array<int32_t, 3> operands = {0, 1, 2};  ///< inputs of the region
  std::array<int32_t, 3> ids = {-1, -1, -1};    ///< likewise of an operand that is gathered, or -1
};

std::optional<RotaryView> view_rotary(const RegionView& region) {
  const Node& node = region.node;
  if (const auto* op = node.op.as<ops::RotaryEmbedding>()) return RotaryView{op};
  if (!node.op.as<ops::Region>() || node.bodies.size() != 1 || node.outputs.size() != 1) return std::nullopt;
  const Graph& body = node.bodies[0];
  const Node& last = body.nodes.back();
  const auto* op = last.op.as<ops::RotaryEmbedding>();
  if (!op || body.outputs[0] != last.outputs[0]) return std::nullopt;
  RotaryView view{op};
  size_t nodes = 1;
  const auto maker = [&](ValueId id) {
    return std::ranges::find_if(body.nodes, [&](const Node& n) { return n.outputs[0] == id; });
  };
  for (size_t i = 0; i < view.operands.size(); ++i) {
    ValueId operand = last.inputs[i];
    view.operands[i] = input_index(body, operand);
    if (view.operands[i] >= 0) continue;
    auto made = maker(operand);
    for (; made != body.nodes.end() && made->op.as<ops::Reshape>(); ++nodes) made = maker(operand = made->inputs[0]);
    if (i == ops::RotaryEmbedding::in_x || made == body.nodes.end() || !gathers_rows(body, *made)) return std::nullopt;
    view.operands[i] = input_index(body, made->inputs[0]);
    view.ids[i] = input_index(body, made->inputs[1]);
    if (view.operands[i] < 0 || view.ids[i] < 0) return std::nullopt;
    ++nodes;
  }
  return nodes == body.nodes.size() ? std::optional(view) : std::nullopt;
}

class RotaryLaunch final : public Launch {
 public:
  RotaryLaunch(const RotaryView& view, const KernelShapes& shapes) : view_(view) {
    const ops::RotaryEmbedding& op = *view.op;
    const auto dims_of = [&](int32_t i) -> const Dims& { return shapes.inputs[static_cast<size_t>(i)].dims; };
    std::vector<Dims> inputs;
    for (size_t i = 0; i < view.operands.size(); ++i) {
      inputs.push_back(dims_of(view.operands[i]));
      if (view.ids[i] < 0) continue;
      const Dims &table = dims_of(view.operands[i]), &ids = dims_of(view.ids[i]);
      Gathered& made = gathered_[i];
      made.rows = {1, table[0], ops::product(table, 1, table.size()) * int64_t{sizeof(float)}, element_count(ids)};
      inputs.back() = ids;
      inputs.back().insert(inputs.back().end(), table.begin() + 1, table.end());
    }
    const ops::BoundRotaryEmbedding bound =
        ops::bind_rotary_embedding(op, inputs, shapes.outputs[0].dims, *shapes.symbols);
    rotary_.width = bound.width;
    rotary_.rotated = op.rotated;
    rotary_.interleaved = op.interleaved;
    Dims result = contiguous_strides(bound.axes);
    for (int64_t& stride : result) stride *= shapes.outputs[0].pitch();
    rotary_.rows = {bound.axes, {bound.x.strides, bound.cosine.strides, bound.sine.strides, std::move(result)}};
    offsets_ = {bound.x.offset, bound.cosine.offset, bound.sine.offset};
    for (const size_t i : {ops::RotaryEmbedding::in_cosine, ops::RotaryEmbedding::in_sine}) {
      RotaryTable& table = i == ops::RotaryEmbedding::in_cosine ? rotary_.cosine : rotary_.sine;
      const ops::RotaryAccess& access = i == ops::RotaryEmbedding::in_cosine ? bound.cosine : bound.sine;
      table = {access.second, access.pair};
      if (view.ids[i] >= 0) read_rows(i, access, table);
    }
    rotary_.prepare();
  }

  size_t workspace_bytes() const override {
    size_t bytes = 0;
    for (const Gathered& made : gathered_) bytes += made.bytes;
    return bytes;
  }

  void run(const LaunchArguments& a) override {
    std::byte* copy = a.workspace;
    std::array<RotaryRows, 3> operands{nullptr, nullptr, nullptr};
    for (size_t i = 0; i < operands.size(); ++i) {
      operands[i] = input<float>(a, static_cast<size_t>(view_.operands[i])) + offsets_[i];
      if (view_.ids[i] < 0) continue;
      const std::byte* ids = a.inputs[static_cast<size_t>(view_.ids[i])];
      const Gathered& made = gathered_[i];
      if (!made.copied) {
        made.rows.check(ids, DType::i64);
        operands[i].first -= offsets_[i];
        operands[i].ids = reinterpret_cast<const int64_t*>(ids) + offsets_[i];
      } else {
        made.rows.run(a.pool, a.inputs[static_cast<size_t>(view_.operands[i])], ids, DType::i64, copy);
        operands[i] = reinterpret_cast<const float*>(copy) + offsets_[i];
        copy += made.bytes;
      }
    }
    rotary_.run(a.pool, operands[ops::RotaryEmbedding::in_x].first, operands[ops::RotaryEmbedding::in_cosine],
                operands[ops::RotaryEmbedding::in_sine], output<float>(a, 0));
  }

 private:
  struct Gathered {
    Gather rows;
    bool copied = false;  // into the workspace first
    size_t bytes = 0;     // there
  };

  // Table i is read where it is if each row of x takes its angles from one of its rows; else the rows are gathered
  // first.
  void read_rows(size_t i, const ops::RotaryAccess& access, RotaryTable& table) {
    Gathered& made = gathered_[i];
    const int64_t row = made.rows.inner_bytes / int64_t{sizeof(float)};
    Dims& strides = rotary_.rows.strides[i == ops::RotaryEmbedding::in_cosine ? Rotary::in_cosine : Rotary::in_sine];
    const int64_t pairs = rotary_.rotated / 2, last = access.second + (pairs - 1) * access.pair;
    const bool whole = row > 0 && last < row && offsets_[i] % row == 0 &&
                       std::ranges::all_of(strides, [&](int64_t stride) { return stride % row == 0; });
    if (!whole) {
      made.copied = true;
      made.bytes = static_cast<size_t>(round_up(made.rows.count * made.rows.inner_bytes, 64));
      return;
    }
    table.row = row, table.rows = made.rows.size;
    offsets_[i] /= row;
    for (int64_t& stride : strides) stride /= row;
  }

  const RotaryView& view_;
  Rotary rotary_;
  std::array<int64_t, 3> offsets_{};  // elements, of rows that are named: rows
  std::array<Gathered, 3> gathered_;
};

class RotaryKernel final : public Kernel {
 public:
  explicit RotaryKernel(const RegionView& region) : view_(*view_rotary(region)), op_(*view_.op) { view_.op = &op_; }
  std::unique_ptr<Launch> prepare(const KernelShapes& shapes) const override {
    return std::make_unique<RotaryLaunch>(view_, shapes);
  }
  bool writes_slices(size_t) const override { return true; }

 private:
  RotaryView view_;
  ops::RotaryEmbedding op_;
};

std::optional<double> estimate_rotary_embedding(const RegionView& region) {
  const auto view = view_rotary(region);
  if (!view || view->op->axes.size() > static_cast<size_t>(most_strided_dims)) return std::nullopt;
  for (const int32_t i : view->operands)
    if (region.graph.type(region.node.inputs[static_cast<size_t>(i)]).dtype != DType::f32) return std::nullopt;
  return seconds_per_launch + bytes_at_optimum(region) * seconds_per_byte;
}

std::shared_ptr<const Kernel> compile_rotary_embedding(const RegionView& region, PackedConstants&) {
  return std::make_shared<RotaryKernel>(region);
}

}  // namespace

bool gathers_rows(const Graph& graph, const Node& node) {
  const auto* gather = node.op.as<ops::Gather>();
  return gather && gather->axis == 0 && graph.type(node.inputs[0]).dtype == DType::f32 &&
         graph.type(node.inputs[1]).dtype == DType::i64;
}

const CpuTactic rotary_embedding_tactic{"rotary_embedding", estimate_rotary_embedding, compile_rotary_embedding};

}  // namespace camshaft::cpu
