// Factors and shifts of channels, as batch normalisation is made of them.
#pragma once

#include <optional>
#include <vector>

#include "base/thread_pool.h"
#include "ir/graph.h"
#include "ir/ops/scalar_function.h"

namespace camshaft {

/// v·scale + shift, channel by channel: f64 constants of one element, or one for each channel. Without a tensor they
/// are 1 and 0.
struct ChannelAffine {
  Constant scale, shift;
};

/// One pointwise node: a function of an operand and a constant.
struct ChannelStep {
  ValueId operand = no_value, constant = no_value;
  ScalarFunction function = ScalarFunction::add;
  bool constant_first = false;
  bool shifts = false;  ///< adds what is not 0
};

/// What a node does to its one operand that is not constant, whose type is that of the result, where that is a sum with
/// finite numbers or a product with them: one for each channel (of `axis`), or one for all.
std::optional<ChannelStep> channel_step(const Graph& graph, const Node& node, size_t axis, int64_t channels);

/// Of steps that follow each other.
ChannelAffine composed(const Graph& graph, const std::vector<ChannelStep>& steps, ThreadPool& pool);

/// Whether the numbers may be others than what changes nothing, after a refit, too.
bool scales(const ChannelAffine& affine);
bool shifts(const ChannelAffine& affine);
bool has_other_than(const Constant& numbers, double neutral);

/// Of f64; without a tensor they are 1 for products, 0 for sums.
Constant multiplied(const Constant& a, const Constant& b, ThreadPool& pool);
Constant added(const Constant& a, const Constant& b, ThreadPool& pool);

/// One number for each channel.
Constant for_each_channel(const Constant& numbers, int64_t channels, ThreadPool& pool);

}  // namespace camshaft
