#include "optimize/layout/transposes_past_products.h"

#include <algorithm>

#include "ir/ops/contract.h"
#include "ir/ops/float8.h"
#include "ir/ops/move.h"
#include "ir/ops/pointwise.h"
#include "ir/ops/quantized.h"
#include "ir/rewriter.h"
#include "optimize/analysis/match.h"

namespace camshaft {

namespace {

bool is_view(const Node& node) {
  return node.op.as<ops::Reshape>() && node.inputs.size() == 1;
}

const ops::Transpose* transpose_of_rows(const Node& node) {
  const auto* op = node.op.as<ops::Transpose>();
  const bool keeps_last =
      op && op->permutation.size() >= 3 && op->permutation.back() + 1 == static_cast<int64_t>(op->permutation.size());
  return keeps_last ? op : nullptr;
}

/// A product, and what stands before and behind it column by column: the nodes' numbers.
struct Columns {
  std::vector<int32_t> nodes;
  ValueId x = no_value, y = no_value;
  // Of the transpose that goes to the other side; what it reads, where it was before them.
  std::vector<int64_t> permutation;
  std::vector<std::string> sources;
  ValueId turned = no_value;
};

class TransposeExchanger {
 public:
  explicit TransposeExchanger(Graph& graph) : graph_(graph), uses_(graph), part_of_(graph.nodes.size(), -1) {}

  void run() {
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (!is_product(graph_.nodes[n])) continue;
      if (auto found = columns_of(static_cast<int32_t>(n))) take(std::move(*found));
    }
    if (!found_.empty()) rebuild();
  }

 private:
  const Node& node(int32_t n) const { return graph_.nodes[static_cast<size_t>(n)]; }
  int32_t producer(ValueId id) const { return uses_.producer[static_cast<size_t>(id)]; }
  int32_t only_reader(ValueId id) const { return uses_.single(id) ? uses_.readers[static_cast<size_t>(id)][0] : -1; }

  bool is_product(const Node& n) const {
    const auto* op = n.op.as<ops::MatMul>();
    const bool is_of_rows = op ? !op->transpose_a : n.op.as<ops::IntegerMatMul>() || n.op.as<ops::Float8MatMul>();
    // The zero points of bytes are the same for all rows.
    const auto is_number = [&](size_t i) {
      return i >= n.inputs.size() || n.inputs[i] == no_value || graph_.shape(n.inputs[i]).empty();
    };
    return is_of_rows && is_number(2) && graph_.is_constant(n.inputs[1]) && graph_.shape(n.inputs[1]).size() == 2 &&
           graph_.shape(n.inputs[0]).size() >= 3;
  }

  // Of each element of `x` and what its column has.
  bool is_by_columns(const Node& n, ValueId x) const {
    const bool is_step = n.op.as<ops::Pointwise>() || n.op.as<ops::Cast>();
    if (!is_step || n.outputs.size() != 1 || graph_.shape(n.outputs[0]) != graph_.shape(x)) return false;
    return std::count(n.inputs.begin(), n.inputs.end(), x) == 1 &&
           std::all_of(n.inputs.begin(), n.inputs.end(), [&](ValueId id) {
             return id == x || (id != no_value && graph_.is_constant(id) && graph_.shape(id).size() <= 1);
           });
  }

  std::optional<Columns> columns_of(int32_t product) const {
    Columns c;
    c.nodes = {product};
    c.x = node(product).inputs[0];
    c.y = node(product).outputs[0];
    for (int32_t n = only_reader(c.y); n >= 0 && is_by_columns(node(n), c.y); n = only_reader(c.y)) {
      c.nodes.push_back(n);
      c.y = node(n).outputs[0];
    }
    const int32_t before = producer(c.x), behind = only_reader(c.y);
    if (before >= 0 && part_of_[static_cast<size_t>(before)] < 0 && all_readers_are_products(c.x)) {
      const auto* op = transpose_of_rows(node(before));
      if (op && meets_transpose_behind(c.y)) {
        c.permutation = op->permutation;
        c.sources = node(before).sources;
        c.turned = node(before).inputs[0];
        return c;
      }
    }
    if (behind >= 0) {
      const auto* op = transpose_of_rows(node(behind));
      if (op && !meets_transpose_before(c.x)) take_steps_before(c);
      if (op && meets_transpose_before(c.x)) {
        c.permutation = op->permutation;
        c.sources = node(behind).sources;
        c.nodes.push_back(behind);
        c.y = node(behind).outputs[0];
        return c;
      }
    }
    return std::nullopt;
  }

  // What makes bytes of the rows that the product reads.
  void take_steps_before(Columns& c) const {
    for (int32_t n = producer(c.x); n >= 0 && part_of_[static_cast<size_t>(n)] < 0 && uses_.single(c.x);
         n = producer(c.x)) {
      const Node& step = node(n);
      const auto rows = std::find_if(step.inputs.begin(), step.inputs.end(),
                                     [&](ValueId id) { return id != no_value && !graph_.is_constant(id); });
      if (rows == step.inputs.end() || !is_by_columns(step, *rows)) return;
      c.nodes.insert(c.nodes.begin(), n);
      c.x = *rows;
    }
  }

  // Else the transpose would be made all the same.
  bool all_readers_are_products(ValueId id) const {
    const auto& readers = uses_.readers[static_cast<size_t>(id)];
    return !uses_.is_output[static_cast<size_t>(id)] && std::all_of(readers.begin(), readers.end(), [&](int32_t n) {
      return is_product(node(n)) && node(n).inputs[0] == id;
    });
  }

  bool meets_transpose_behind(ValueId id) const {
    for (int32_t n = only_reader(id); n >= 0; n = only_reader(id)) {
      if (node(n).op.as<ops::Transpose>()) return true;
      if (!is_view(node(n))) return false;
      id = node(n).outputs[0];
    }
    return false;
  }

  bool meets_transpose_before(ValueId id) const {
    for (int32_t n = producer(id); n >= 0 && uses_.single(id); n = producer(id)) {
      if (node(n).op.as<ops::Transpose>()) return true;
      if (!is_view(node(n))) return false;
      id = node(n).inputs[0];
    }
    return false;
  }

  void take(Columns columns) {
    for (const int32_t n : columns.nodes) part_of_[static_cast<size_t>(n)] = static_cast<int32_t>(found_.size());
    found_.push_back(std::move(columns));
  }

  void rebuild() {
    Rewriter rewriter(graph_);
    std::vector<Node>& nodes = rewriter.nodes();
    for (size_t n = 0; n < nodes.size(); ++n) {
      if (part_of_[n] < 0) {
        rewriter.keep(std::move(nodes[n]));
        continue;
      }
      const Columns& c = found_[static_cast<size_t>(part_of_[n])];
      if (c.nodes.back() != static_cast<int32_t>(n)) continue;  // all at the last one's place
      // Its result is the columns' now, and theirs is the transpose's: the last one has the name that the model knows.
      const auto turn = [&](ValueId id, ValueId like) {
        return graph_.add(ops::Transpose{c.permutation}, {id}, graph_.value(like).name, c.sources);
      };
      const bool moves_up = c.turned == no_value;
      ValueId before = c.x, x = moves_up ? turn(rewriter.resolve(c.x), c.x) : rewriter.resolve(c.turned);
      for (const int32_t i : c.nodes) {
        const Node& old = nodes[static_cast<size_t>(i)];
        if (old.op.as<ops::Transpose>()) continue;
        std::vector<ValueId> inputs = old.inputs;
        for (ValueId& id : inputs) id = id == before ? x : rewriter.resolve(id);
        before = old.outputs[0];
        x = graph_.add(old.op, std::move(inputs), graph_.value(moves_up && i == last_of(c) ? c.y : before).name,
                       old.sources);
      }
      rewriter.replace(c.y, moves_up ? x : turn(x, c.y));
    }
    rewriter.finish();
  }

  // Before the transpose.
  static int32_t last_of(const Columns& c) { return c.nodes[c.nodes.size() - 2]; }

  Graph& graph_;
  const Uses uses_;
  std::vector<int32_t> part_of_;  // by nodes: of found_, or -1
  std::vector<Columns> found_;
};

}  // namespace

void transposes_past_products(Graph& graph, const PassContext&) {
  TransposeExchanger(graph).run();
}

}  // namespace camshaft
