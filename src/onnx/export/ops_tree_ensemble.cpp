// Tree ensembles of ai.onnx.ml, out of their flat arrays.
#include <limits>

#include "ir/ops/tree_ensemble.h"
#include "onnx/export/export_operator.h"
#include "onnx/onnx_dtype.h"

namespace camshaft::onnx {

namespace {

using ops::TreeEnsemble;

constexpr const char* tree_domain = "ai.onnx.ml";
constexpr uint8_t tracks_true = 0x80;

/// The operator's arrays on the host.
struct Arrays {
  const Tensor *compare = nullptr, *thresholds = nullptr, *weights = nullptr, *base = nullptr, *members = nullptr;
  std::vector<int64_t> features, children, roots, starts, targets, set_starts;

  size_t nodes() const { return features.size(); }
  size_t leaves() const { return starts.size() - 1; }
  uint8_t mode(size_t node) const { return compare->as<uint8_t>()[node] & static_cast<uint8_t>(~tracks_true); }
  bool tracks(size_t node) const { return (compare->as<uint8_t>()[node] & tracks_true) != 0; }
  bool has_members() const {
    for (size_t n = 0; n < nodes(); ++n)
      if (mode(n) == static_cast<uint8_t>(ops::TreeCompare::member)) return true;
    return false;
  }
};

Arrays read(ExportContext& c) {
  using enum TreeEnsemble::Input;
  for (size_t i = compare_in; i < c.input_count(); ++i)
    if (c.has(i) && !c.constant_input(i)) c.unsupported("ONNX takes the trees of an ensemble as constants alone");
  const auto ints = [&](size_t i) { return c.constant_input(i)->to_ints(); };
  Arrays a;
  a.compare = c.constant_input(compare_in);
  a.thresholds = c.constant_input(threshold_in);
  a.weights = c.constant_input(weight_in);
  a.base = c.constant_input(base_in);
  a.features = ints(feature_in);
  a.children = ints(child_in);
  a.roots = ints(root_in);
  a.starts = ints(start_in);
  a.targets = ints(target_in);
  if (c.has(set_start_in)) {
    a.set_starts = ints(set_start_in);
    a.members = c.constant_input(set_member_in);
  }
  return a;
}

/// Numbers as an attribute, of f32, or as a tensor `name`_as_tensor of f64.
void add_numbers(ExportContext& c, Attributes& attributes, const std::string& name, const std::vector<double>& values,
                 bool is_f64) {
  if (!is_f64) {
    attributes.numbers(name, values);
    return;
  }
  attributes.tensor(name + "_as_tensor",
                    c.tensor(Tensor::of<double>(DType::f64, {static_cast<int64_t>(values.size())}, values)));
}

/// The lists of TreeEnsembleRegressor and TreeEnsembleClassifier. Each tree's nodes are numbered from 0; leaves are
/// nodes, too. `what` is "target" or "class".
Attributes as_lists(ExportContext& c, const Arrays& a, const std::string& what) {
  constexpr const char* names[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"};
  const std::vector<double> thresholds = a.thresholds->to_doubles(), weights = a.weights->to_doubles();
  std::vector<int64_t> trees, ids, features, on_true, on_false, tracks, weight_trees, weight_nodes, weight_ids;
  std::vector<std::string> modes;
  std::vector<double> values, weight_values;
  for (size_t tree = 0; tree < a.roots.size(); ++tree) {
    // Children stand behind their node: a queue of what is still to be numbered.
    std::vector<int64_t> queue{a.roots[tree]};
    for (size_t next = 0; next < queue.size(); ++next) {
      const int64_t at = queue[next];
      const bool is_leaf = at < 0;
      const auto node = static_cast<size_t>(is_leaf ? ~at : at);
      if (node >= (is_leaf ? a.leaves() : a.nodes())) c.unsupported("a tree has a child that does not exist");
      if (queue.size() > 2 * a.nodes() + 1) c.unsupported("the nodes of a tree are no tree");
      trees.push_back(static_cast<int64_t>(tree));
      ids.push_back(static_cast<int64_t>(next));
      features.push_back(is_leaf ? 0 : a.features[node]);
      modes.emplace_back(is_leaf ? "LEAF" : names[a.mode(node)]);
      values.push_back(is_leaf ? 0 : thresholds[node]);
      tracks.push_back(!is_leaf && a.tracks(node) ? 1 : 0);
      on_true.push_back(is_leaf ? 0 : static_cast<int64_t>(queue.size()));
      on_false.push_back(is_leaf ? 0 : static_cast<int64_t>(queue.size()) + 1);
      if (!is_leaf) {
        queue.push_back(a.children[2 * node]);
        queue.push_back(a.children[2 * node + 1]);
        continue;
      }
      for (int64_t w = a.starts[node]; w < a.starts[node + 1]; ++w) {
        weight_trees.push_back(static_cast<int64_t>(tree));
        weight_nodes.push_back(static_cast<int64_t>(next));
        weight_ids.push_back(a.targets[static_cast<size_t>(w)]);
        weight_values.push_back(weights[static_cast<size_t>(w)]);
      }
    }
  }
  const bool is_f64 = a.thresholds->dtype() == DType::f64;
  Attributes attributes;
  attributes.integers("nodes_treeids", std::move(trees)).integers("nodes_nodeids", std::move(ids));
  attributes.integers("nodes_featureids", std::move(features)).texts("nodes_modes", std::move(modes));
  attributes.integers("nodes_truenodeids", std::move(on_true)).integers("nodes_falsenodeids", std::move(on_false));
  attributes.integers("nodes_missing_value_tracks_true", std::move(tracks));
  add_numbers(c, attributes, "nodes_values", values, is_f64);
  attributes.integers(what + "_treeids", std::move(weight_trees)).integers(what + "_nodeids", std::move(weight_nodes));
  attributes.integers(what + "_ids", std::move(weight_ids));
  add_numbers(c, attributes, what + "_weights", weight_values, is_f64);
  if (a.base->size() > 0) add_numbers(c, attributes, "base_values", a.base->to_doubles(), is_f64);
  return attributes;
}

constexpr const char* transforms[] = {"NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"};

/// TreeEnsemble of version 5, which has sets and results of f64, and takes leaves of one weight alone.
bool is_version_5(ExportContext& c, const TreeEnsemble& op, const Arrays& a) {
  if (op.task != ops::TreeTask::regression || a.base->size() > 0 || c.dtype(0) != a.thresholds->dtype()) return false;
  for (const int64_t root : a.roots)
    if (root < 0) return false;
  for (size_t leaf = 0; leaf < a.leaves(); ++leaf)
    if (a.starts[leaf + 1] - a.starts[leaf] != 1) return false;
  return a.has_members() || a.thresholds->dtype() == DType::f64;
}

void as_version_5(ExportContext& c, const TreeEnsemble& op, const Arrays& a) {
  std::vector<uint8_t> modes;
  std::vector<int64_t> on_true, on_false, true_leaves, false_leaves, tracks;
  std::vector<double> members;
  const std::vector<double> all = a.members ? a.members->to_doubles() : std::vector<double>();
  for (size_t n = 0; n < a.nodes(); ++n) {
    modes.push_back(a.mode(n));
    tracks.push_back(a.tracks(n) ? 1 : 0);
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const int64_t child = a.children[2 * n + side];
      (side == 0 ? on_true : on_false).push_back(child < 0 ? ~child : child);
      (side == 0 ? true_leaves : false_leaves).push_back(child < 0 ? 1 : 0);
    }
    if (a.mode(n) != static_cast<uint8_t>(ops::TreeCompare::member)) continue;
    for (int64_t m = a.set_starts.empty() ? 0 : a.set_starts[n]; !a.set_starts.empty() && m < a.set_starts[n + 1]; ++m)
      members.push_back(all[static_cast<size_t>(m)]);
    members.push_back(std::numeric_limits<double>::quiet_NaN());  // ends the set
  }
  const bool is_f64 = a.thresholds->dtype() == DType::f64;
  const auto numbers = [&](const std::vector<double>& values) {
    const Dims dims{static_cast<int64_t>(values.size())};
    if (is_f64) return c.tensor(Tensor::of<double>(DType::f64, dims, values));
    return c.tensor(Tensor::of<float>(DType::f32, dims, std::vector<float>(values.begin(), values.end())));
  };
  // In the order of the standard's numbers: AVERAGE, SUM, MIN, MAX; NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO, PROBIT.
  constexpr int64_t aggregates[] = {1, 0, 2, 3}, numbers_of_transforms[] = {0, 2, 1, 3, 4};
  Attributes attributes;
  attributes.integer("n_targets", op.targets)
      .integer("aggregate_function", aggregates[static_cast<size_t>(op.aggregate)]);
  attributes.integer("post_transform", numbers_of_transforms[static_cast<size_t>(op.post_transform)]);
  attributes.integers("tree_roots", a.roots).integers("nodes_featureids", a.features);
  attributes.tensor("nodes_modes",
                    c.tensor(Tensor::of<uint8_t>(DType::u8, {static_cast<int64_t>(modes.size())}, modes)));
  attributes.tensor("nodes_splits", numbers(a.thresholds->to_doubles()));
  attributes.integers("nodes_truenodeids", on_true).integers("nodes_falsenodeids", on_false);
  attributes.integers("nodes_trueleafs", true_leaves).integers("nodes_falseleafs", false_leaves);
  attributes.integers("nodes_missing_value_tracks_true", tracks);
  attributes.integers("leaf_targetids", a.targets).tensor("leaf_weights", numbers(a.weights->to_doubles()));
  if (!members.empty()) attributes.tensor("membership_values", numbers(members));
  c.result({"TreeEnsemble", 5, tree_domain}, {c.input(0)}, std::move(attributes));
}

}  // namespace

void export_as(ExportContext& c, const TreeEnsemble& op) {
  const Arrays a = read(c);
  if (is_version_5(c, op, a)) return as_version_5(c, op, a);
  if (a.has_members()) c.unsupported("ONNX takes sets in trees whose leaves have one weight each, and no base values");
  const bool is_classifier = op.task != ops::TreeTask::regression;
  Attributes attributes = as_lists(c, a, is_classifier ? "class" : "target");
  attributes.text("post_transform", transforms[static_cast<size_t>(op.post_transform)]);
  const DType scores = a.thresholds->dtype();
  // The standard's operators give scores of f32 whatever the trees are of.
  const std::string x =
      c.dtype(0) == DType::f16 || c.dtype(0) == DType::bf16 ? c.cast(c.input(0), DType::f32) : c.input(0);
  if (!is_classifier) {
    constexpr const char* aggregates[] = {"SUM", "AVERAGE", "MIN", "MAX"};
    attributes.integer("n_targets", op.targets)
        .text("aggregate_function", aggregates[static_cast<size_t>(op.aggregate)]);
    const Operator regressor{"TreeEnsembleRegressor", 3, tree_domain};
    if (scores == DType::f32) return c.result(regressor, {x}, std::move(attributes));
    return c.result("Identity", {c.cast(c.add(regressor, {x}, std::move(attributes)), scores)});
  }
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < op.targets; ++i) labels.push_back(i);
  attributes.integers("classlabels_int64s", labels);
  const Operator classifier{"TreeEnsembleClassifier", 3, tree_domain};
  if (scores == DType::f32) return c.result(classifier, {x}, std::move(attributes));
  const std::string narrow = c.unused_name();
  c.add_named(classifier, {x}, {c.output(0), narrow}, std::move(attributes));
  c.add_named("Cast", {narrow}, {c.output(1)}, Attributes().integer("to", dtype_to_onnx(scores)));
}

}  // namespace camshaft::onnx
