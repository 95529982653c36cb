// Tree ensembles of ai.onnx.ml: the three operators, as flat arrays for ops::TreeEnsemble.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <unordered_map>

#include "ir/ops/move.h"
#include "ir/ops/tree_ensemble.h"
#include "onnx/machine_learning.h"
#include "onnx/quote.h"

namespace camshaft::onnx {

namespace {

constexpr int64_t no_child = std::numeric_limits<int64_t>::max();

/// Trees as the attributes give them: indices into lists, a child c < 0 is leaf ~c.
struct Source {
  std::vector<uint8_t> compare;
  std::vector<int64_t> features;
  std::vector<double> thresholds;
  std::vector<int64_t> on_true, on_false;
  std::vector<int64_t> roots;
  std::vector<std::vector<double>> members;  // of each node, or no list at all
  std::vector<int32_t> leaf_starts{0}, leaf_targets;
  std::vector<double> leaf_weights;
  std::vector<double> base;
  bool is_f64 = false;
};

Tensor numbers(const std::vector<double>& values, bool is_f64) {
  const Dims dims{static_cast<int64_t>(values.size())};
  if (is_f64) return Tensor::of<double>(DType::f64, dims, values);
  return Tensor::of<float>(DType::f32, dims, std::vector<float>(values.begin(), values.end()));
}

Tensor indices(const std::vector<int32_t>& values, Dims dims = {}) {
  if (dims.empty()) dims = {static_cast<int64_t>(values.size())};
  return Tensor::of<int32_t>(DType::i32, std::move(dims), values);
}

/// Nodes and leaves are numbered in 32 bits.
void check_countable(ConvertContext& c, size_t count) {
  if (count > std::numeric_limits<int32_t>::max() / 2) c.unsupported("more than 2^30 tree nodes or leaves");
}

/// The arrays in the order of a walk from the roots, so that children stand behind their node; nodes that no root
/// reaches are left out. The operator's inputs behind x.
Values flatten(ConvertContext& c, const Source& source) {
  const auto count = static_cast<int64_t>(source.features.size());
  check_countable(c, source.features.size());
  std::vector<bool> is_seen(static_cast<size_t>(count));
  std::vector<uint8_t> compare;
  std::vector<int32_t> features, children, roots, set_starts{0};
  std::vector<double> thresholds, members;
  struct Visit {
    int64_t node;
    size_t slot;  // in `children` where its number goes
  };
  std::vector<Visit> stack;
  const auto number = [&](int64_t child, size_t slot) {
    if (child < 0) {
      children[slot] = static_cast<int32_t>(child);
    } else {
      stack.push_back({child, slot});
    }
  };
  for (const int64_t root : source.roots) {
    if (root < 0) {
      roots.push_back(static_cast<int32_t>(root));
      continue;
    }
    constexpr size_t no_slot = std::numeric_limits<size_t>::max();
    roots.push_back(static_cast<int32_t>(features.size()));
    stack.push_back({root, no_slot});
    while (!stack.empty()) {
      const Visit visit = stack.back();
      stack.pop_back();
      if (visit.node >= count) c.invalid(fmt::format("tree node {} does not exist: there are {}", visit.node, count));
      const auto node = static_cast<size_t>(visit.node);
      if (is_seen[node]) c.invalid(fmt::format("tree node {} is reached twice", visit.node));
      is_seen[node] = true;
      if (visit.slot != no_slot) children[visit.slot] = static_cast<int32_t>(features.size());
      if (source.features[node] < 0 || source.features[node] > std::numeric_limits<int32_t>::max())
        c.invalid(fmt::format("tree node {} reads feature {}", visit.node, source.features[node]));
      features.push_back(static_cast<int32_t>(source.features[node]));
      compare.push_back(source.compare[node]);
      thresholds.push_back(source.thresholds[node]);
      if (!source.members.empty())
        members.insert(members.end(), source.members[node].begin(), source.members[node].end());
      set_starts.push_back(static_cast<int32_t>(members.size()));
      const size_t slot = children.size();
      children.resize(slot + 2);
      number(source.on_false[node], slot + 1);
      number(source.on_true[node], slot);
    }
  }
  const auto n = static_cast<int64_t>(features.size());
  Values inputs{c.add_constant(Tensor::of<uint8_t>(DType::u8, {n}, compare)),
                c.add_constant(indices(features)),
                c.add_constant(numbers(thresholds, source.is_f64)),
                c.add_constant(indices(children, {n, 2})),
                c.add_constant(indices(roots)),
                c.add_constant(indices(source.leaf_starts)),
                c.add_constant(indices(source.leaf_targets)),
                c.add_constant(numbers(source.leaf_weights, source.is_f64)),
                c.add_constant(numbers(source.base, source.is_f64))};
  if (!source.members.empty()) {
    inputs.push_back(c.add_constant(indices(set_starts)));
    inputs.push_back(c.add_constant(numbers(members, source.is_f64)));
  }
  return inputs;
}

/// The input in a dtype that compares as it is: integers as doubles.
ValueId comparable(ConvertContext& c) {
  const ValueId x = rows_of_features(c);
  return is_floating(c.dtype(x)) ? x : c.cast(x, DType::f64);
}

std::vector<int64_t> ints_or_none(ConvertContext& c, std::string_view name) {
  return c.ints_attribute(name).value_or(std::vector<int64_t>{});
}

/// `name`, or `name`_as_tensor, which may be of doubles.
std::vector<double> numbers_of(ConvertContext& c, const std::string& name, bool& is_f64) {
  if (const auto tensor = c.tensor_attribute(name + "_as_tensor")) {
    if (tensor->dtype() == DType::string) c.invalid(fmt::format("attribute '{}_as_tensor' must be of numbers", name));
    is_f64 = is_f64 || tensor->dtype() == DType::f64;
    return tensor->to_doubles();
  }
  return c.floats_attribute(name).value_or(std::vector<double>{});
}

void check_length(ConvertContext& c, std::string_view name, size_t length, size_t expected) {
  if (length != expected)
    c.invalid(fmt::format("attribute '{}' has {} elements, {} are expected", name, length, expected));
}

constexpr std::string_view compare_names[] = {"BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                              "BRANCH_GT",  "BRANCH_EQ", "BRANCH_NEQ"};

/// The trees of TreeEnsembleRegressor and TreeEnsembleClassifier. Nodes are named by (tree, node); weights are of
/// leaves named so. `what` is "target" or "class".
Source read_trees(ConvertContext& c, const std::string& what, std::vector<int64_t>& targets) {
  Source source;
  const auto trees = ints_or_none(c, "nodes_treeids"), ids = ints_or_none(c, "nodes_nodeids");
  const auto on_true = ints_or_none(c, "nodes_truenodeids"), on_false = ints_or_none(c, "nodes_falsenodeids");
  const auto features = ints_or_none(c, "nodes_featureids");
  const auto tracks = ints_or_none(c, "nodes_missing_value_tracks_true");
  const auto* modes = c.attribute("nodes_modes", AttributeType::strings);
  const auto thresholds = numbers_of(c, "nodes_values", source.is_f64);
  const size_t n = trees.size();
  check_countable(c, n);
  check_length(c, "nodes_nodeids", ids.size(), n);
  check_length(c, "nodes_truenodeids", on_true.size(), n);
  check_length(c, "nodes_falsenodeids", on_false.size(), n);
  check_length(c, "nodes_featureids", features.size(), n);
  check_length(c, "nodes_values", thresholds.size(), n);
  check_length(c, "nodes_modes", modes ? modes->strings.size() : 0, n);
  if (!tracks.empty()) check_length(c, "nodes_missing_value_tracks_true", tracks.size(), n);

  using Name = std::pair<int64_t, int64_t>;
  struct Hash {
    size_t operator()(const Name& name) const {
      return std::hash<uint64_t>()(static_cast<uint64_t>(name.first) * 0x9E3779B9U ^
                                   static_cast<uint64_t>(name.second));
    }
  };
  std::unordered_map<Name, int64_t, Hash> named;  // a node's index here
  for (size_t i = 0; i < n; ++i)
    if (!named.emplace(Name(trees[i], ids[i]), static_cast<int64_t>(i)).second)
      c.invalid(fmt::format("node {} of tree {} is there twice", ids[i], trees[i]));

  // Leaves: a list of weights each, in the order of the leaves among the nodes.
  std::vector<int64_t> leaf_of(n, -1);
  int64_t leaves = 0;
  for (size_t i = 0; i < n; ++i)
    if (modes->strings[i] == "LEAF") leaf_of[i] = leaves++;
  const auto weight_trees = ints_or_none(c, what + "_treeids"), weight_nodes = ints_or_none(c, what + "_nodeids");
  targets = ints_or_none(c, what + "_ids");
  const auto weights = numbers_of(c, what + "_weights", source.is_f64);
  check_countable(c, weights.size());
  check_length(c, what + "_treeids", weight_trees.size(), weights.size());
  check_length(c, what + "_nodeids", weight_nodes.size(), weights.size());
  check_length(c, what + "_ids", targets.size(), weights.size());
  std::vector<std::pair<int64_t, size_t>> by_leaf;
  for (size_t w = 0; w < weights.size(); ++w) {
    const auto it = named.find(Name(weight_trees[w], weight_nodes[w]));
    if (it == named.end())
      c.invalid(
          fmt::format("a weight is of node {} of tree {}, which does not exist", weight_nodes[w], weight_trees[w]));
    const int64_t leaf = leaf_of[static_cast<size_t>(it->second)];
    if (leaf >= 0) by_leaf.emplace_back(leaf, w);  // ONNX Runtime does not read the weights of other nodes either
  }
  std::stable_sort(by_leaf.begin(), by_leaf.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  size_t next = 0;
  for (int64_t leaf = 0; leaf < leaves; ++leaf) {
    for (; next < by_leaf.size() && by_leaf[next].first == leaf; ++next) {
      const size_t w = by_leaf[next].second;
      source.leaf_targets.push_back(static_cast<int32_t>(std::clamp<int64_t>(targets[w], -1, 1 << 30)));
      source.leaf_weights.push_back(weights[w]);
    }
    source.leaf_starts.push_back(static_cast<int32_t>(source.leaf_weights.size()));
  }

  std::vector<bool> has_parent(n);
  const auto child = [&](size_t i, int64_t id) {
    const auto it = named.find(Name(trees[i], id));
    if (it == named.end())
      c.invalid(fmt::format("node {} of tree {} has a child {}, which does not exist", ids[i], trees[i], id));
    const auto at = static_cast<size_t>(it->second);
    has_parent[at] = true;
    return leaf_of[at] >= 0 ? ~leaf_of[at] : it->second;
  };
  for (size_t i = 0; i < n; ++i) {
    const auto* mode = std::find(std::begin(compare_names), std::end(compare_names), modes->strings[i]);
    if (leaf_of[i] < 0 && mode == std::end(compare_names))
      c.invalid(fmt::format("node mode {} is not known", quote(modes->strings[i])));
    const bool tracks_true = !tracks.empty() && tracks[i] != 0;
    source.compare.push_back(static_cast<uint8_t>((mode - std::begin(compare_names)) | (tracks_true ? 0x80 : 0)));
    source.features.push_back(features[i]);
    source.thresholds.push_back(thresholds[i]);
    source.on_true.push_back(leaf_of[i] < 0 ? child(i, on_true[i]) : no_child);
    source.on_false.push_back(leaf_of[i] < 0 ? child(i, on_false[i]) : no_child);
  }
  for (size_t i = 0; i < n; ++i)
    if (!has_parent[i]) source.roots.push_back(leaf_of[i] >= 0 ? ~leaf_of[i] : static_cast<int64_t>(i));
  source.base = numbers_of(c, "base_values", source.is_f64);
  return source;
}

void check_targets(ConvertContext& c, const Source& source, int64_t count) {
  if (count < 1 || count > (1 << 24)) c.invalid(fmt::format("{} targets", count));
  for (const int32_t target : source.leaf_targets)
    if (target < 0 || target >= count) c.invalid(fmt::format("a leaf has a weight for target {} of {}", target, count));
  // ONNX Runtime ignores base values that do not fit.
}

Values tree_ensemble_regressor(ConvertContext& c) {
  ops::TreeEnsemble op;
  std::vector<int64_t> targets;
  const Source source = read_trees(c, "target", targets);
  op.targets = c.int_attribute("n_targets");
  check_targets(c, source, op.targets);
  op.post_transform = post_transform(c);
  const std::string aggregate = c.string_attribute("aggregate_function", "SUM");
  constexpr std::string_view names[] = {"SUM", "AVERAGE", "MIN", "MAX"};
  const auto* found = std::find(std::begin(names), std::end(names), aggregate);
  if (found == std::end(names)) c.invalid(fmt::format("aggregate_function {} is not known", quote(aggregate)));
  op.aggregate = static_cast<ops::TreeAggregate>(found - std::begin(names));
  Values inputs = flatten(c, source);
  inputs.insert(inputs.begin(), comparable(c));
  return {c.cast(c.result_at(0, op, std::move(inputs)), DType::f32)};
}

Values tree_ensemble_classifier(ConvertContext& c) {
  ops::TreeEnsemble op;
  std::vector<int64_t> classes;
  const Source source = read_trees(c, "class", classes);
  Tensor labels = class_labels(c, "classlabels_int64s");
  if (!labels.defined()) c.invalid("it has no class labels");
  op.targets = labels.size();
  check_targets(c, source, op.targets);
  op.post_transform = post_transform(c);
  const bool is_one_class =
      !classes.empty() && std::all_of(classes.begin(), classes.end(), [&](int64_t k) { return k == classes[0]; });
  const bool is_positive =
      std::all_of(source.leaf_weights.begin(), source.leaf_weights.end(), [](double weight) { return weight >= 0; });
  op.task = ops::TreeTask::classification;
  if (op.targets == 2 && is_one_class)
    op.task = is_positive ? ops::TreeTask::binary_positive : ops::TreeTask::binary_mixed;
  Values inputs = flatten(c, source);
  inputs.insert(inputs.begin(), comparable(c));
  if (op.targets == 1)  // a score alone says yes or no
    labels = labels.dtype() == DType::string ? Tensor::of<std::string>(DType::string, {2}, {"0", "1"})
                                             : Tensor::from_ints({0, 1});
  Values outputs = add_parts(c, op, std::move(inputs), {"class", "scores"});
  const ValueId label = c.result_at(0, ops::Gather{0}, {c.add_constant(std::move(labels)), outputs[0]});
  return {label, c.cast(outputs[1], DType::f32)};
}

Values tree_ensemble(ConvertContext& c) {
  Source source;
  ops::TreeEnsemble op;
  op.targets = c.int_attribute("n_targets");
  const auto features = ints_or_none(c, "nodes_featureids");
  const auto on_true = ints_or_none(c, "nodes_truenodeids"), on_false = ints_or_none(c, "nodes_falsenodeids");
  const auto true_leafs = ints_or_none(c, "nodes_trueleafs"), false_leafs = ints_or_none(c, "nodes_falseleafs");
  const auto tracks = ints_or_none(c, "nodes_missing_value_tracks_true");
  const auto tensor = [&](std::string_view name) {
    auto t = c.tensor_attribute(name);
    if (!t || t->dtype() == DType::string) c.invalid(fmt::format("attribute '{}' is missing or not of numbers", name));
    source.is_f64 = source.is_f64 || t->dtype() == DType::f64;
    return t->to_doubles();
  };
  const size_t n = features.size();
  source.thresholds = tensor("nodes_splits");
  source.leaf_weights = tensor("leaf_weights");
  const auto modes = c.tensor_attribute("nodes_modes");
  if (!modes || modes->dtype() != DType::u8) c.invalid("attribute 'nodes_modes' must be a tensor of u8");
  check_length(c, "nodes_modes", static_cast<size_t>(modes->size()), n);
  check_length(c, "nodes_splits", source.thresholds.size(), n);
  check_length(c, "nodes_truenodeids", on_true.size(), n);
  check_length(c, "nodes_falsenodeids", on_false.size(), n);
  check_length(c, "nodes_trueleafs", true_leafs.size(), n);
  check_length(c, "nodes_falseleafs", false_leafs.size(), n);
  if (!tracks.empty()) check_length(c, "nodes_missing_value_tracks_true", tracks.size(), n);
  const auto leaf_targets = ints_or_none(c, "leaf_targetids");
  check_countable(c, leaf_targets.size());
  check_length(c, "leaf_targetids", leaf_targets.size(), source.leaf_weights.size());
  for (const int64_t target : leaf_targets) {
    source.leaf_targets.push_back(static_cast<int32_t>(std::clamp<int64_t>(target, -1, 1 << 30)));
    source.leaf_starts.push_back(source.leaf_starts.back() + 1);
  }
  check_targets(c, source, op.targets);
  const auto leaves = static_cast<int64_t>(leaf_targets.size());
  const auto child = [&](int64_t id, bool is_leaf) {
    if (id < 0 || (is_leaf && id >= leaves))
      c.invalid(fmt::format("{} {} does not exist", is_leaf ? "leaf" : "node", id));
    return is_leaf ? ~id : id;
  };
  std::vector<double> member_list;
  if (c.has_attribute("membership_values")) member_list = tensor("membership_values");
  size_t member = 0;
  for (size_t i = 0; i < n; ++i) {
    const uint8_t mode = modes->as<uint8_t>()[i];
    if (mode > 6) c.invalid(fmt::format("node mode {} is not known", mode));
    source.compare.push_back(static_cast<uint8_t>(mode | (!tracks.empty() && tracks[i] != 0 ? 0x80 : 0)));
    source.on_true.push_back(child(on_true[i], true_leafs[i] != 0));
    source.on_false.push_back(child(on_false[i], false_leafs[i] != 0));
    if (member_list.empty()) continue;
    source.members.emplace_back();
    if (mode != static_cast<uint8_t>(ops::TreeCompare::member)) continue;
    while (member < member_list.size() && !std::isnan(member_list[member]))
      source.members.back().push_back(member_list[member++]);
    ++member;  // the NaN behind the set
  }
  source.features = features;
  source.roots = ints_or_none(c, "tree_roots");
  for (const int64_t root : source.roots)
    if (root < 0) c.invalid(fmt::format("tree root {} does not exist", root));
  const int64_t aggregate = c.int_attribute("aggregate_function", 1), transform = c.int_attribute("post_transform", 0);
  using Aggregate = ops::TreeAggregate;
  constexpr Aggregate aggregates[] = {Aggregate::average, Aggregate::sum, Aggregate::min, Aggregate::max};
  if (aggregate < 0 || aggregate > 3) c.invalid(fmt::format("aggregate_function {} is not known", aggregate));
  op.aggregate = aggregates[aggregate];
  using Transform = ops::PostTransform;
  constexpr Transform transforms[] = {Transform::none, Transform::softmax, Transform::logistic, Transform::softmax_zero,
                                      Transform::probit};
  if (transform < 0 || transform > 4) c.invalid(fmt::format("post_transform {} is not known", transform));
  op.post_transform = transforms[transform];
  Values inputs = flatten(c, source);
  inputs.insert(inputs.begin(), comparable(c));
  return {c.cast(c.result_at(0, op, std::move(inputs)), c.dtype(c.input(0)))};
}

constexpr Converter tree_ensemble_table[] = {
    {"TreeEnsemble", tree_ensemble},
    {"TreeEnsembleClassifier", tree_ensemble_classifier},
    {"TreeEnsembleRegressor", tree_ensemble_regressor},
};

}  // namespace

std::span<const Converter> tree_ensemble_converters() {
  return tree_ensemble_table;
}

}  // namespace camshaft::onnx
