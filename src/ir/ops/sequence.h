// Operators over sequences of tensors. Elements in results own their bytes, so that results may outlive the inputs.
#pragma once

#include <string>

#include "ir/graph.h"

namespace camshaft::ops {

/// (elements…) -> sequence of them. `element` is a type as parse_element_type() reads it, which the elements join; a
/// sequence without elements needs it.
struct SequenceConstruct {
  static constexpr std::string_view name = "sequence_construct";
  static constexpr Traits traits = opaque_traits;
  static constexpr bool takes_containers = true;
  std::string element;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("element", self.element);
  }
  bool operator==(const SequenceConstruct&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (sequence, value, position?) -> the sequence with the value before the element that was at `position`, or at its
/// end. Positions, here and below, are one i64 or i32, and count from the end when they are negative.
struct SequenceInsert {
  static constexpr std::string_view name = "sequence_insert";
  static constexpr Traits traits = opaque_traits;
  static constexpr bool takes_containers = true;
  template <class S, class V>
  static void reflect(S&, V&&) {}
  bool operator==(const SequenceInsert&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (sequence, position?) -> the sequence without one element, the last if no position is given.
struct SequenceErase {
  static constexpr std::string_view name = "sequence_erase";
  static constexpr Traits traits = opaque_traits;
  static constexpr bool takes_containers = true;
  template <class S, class V>
  static void reflect(S&, V&&) {}
  bool operator==(const SequenceErase&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (sequence, position) -> the element. `rank` is that of the element where the type does not say it; -1: not known,
/// which is Error(unsupported) then.
struct SequenceAt {
  static constexpr std::string_view name = "sequence_at";
  static constexpr Traits traits = opaque_traits;
  static constexpr bool takes_containers = true;
  int64_t rank = -1;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("rank", self.rank);
  }
  bool operator==(const SequenceAt&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (sequence) -> i64[]
struct SequenceLength {
  static constexpr std::string_view name = "sequence_length";
  static constexpr Traits traits = opaque_traits;
  static constexpr bool takes_containers = true;
  template <class S, class V>
  static void reflect(S&, V&&) {}
  bool operator==(const SequenceLength&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (x, sizes?) -> the pieces of x along `axis`: of the given sizes if `sizes` has one axis; of that size, the last one
/// maybe smaller, if it is one number; without it single slices, which lose the axis unless `keep_axis`.
struct SplitToSequence {
  static constexpr std::string_view name = "split_to_sequence";
  static constexpr Traits traits = opaque_traits;
  int64_t axis = 0;
  bool keep_axis = true;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("axis", self.axis);
    visit("keep_axis", self.keep_axis);
  }
  bool operator==(const SplitToSequence&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (sequence) -> its elements joined along `axis`, which is a new one if `new_axis`. Their rank must be known.
struct ConcatFromSequence {
  static constexpr std::string_view name = "concat_from_sequence";
  static constexpr Traits traits = opaque_traits;
  static constexpr bool takes_containers = true;
  int64_t axis = 0;
  bool new_axis = false;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("axis", self.axis);
    visit("new_axis", self.new_axis);
  }
  bool operator==(const ConcatFromSequence&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// (sequence, others…, captures…) -> sequences. bodies[0] runs once for every element of the first input, with the
/// elements at the same place of those of the first `count` inputs that are sequences, and with the other inputs as
/// they are; what it gives are the elements of the results.
struct SequenceMap {
  static constexpr std::string_view name = "sequence_map";
  static constexpr Traits traits = opaque_traits;
  static constexpr bool takes_containers = true;
  int64_t count = 1;
  template <class S, class V>
  static void reflect(S& self, V&& visit) {
    visit("count", self.count);
  }
  bool operator==(const SequenceMap&) const = default;
  std::vector<Inferred> infer(const InferContext&) const;
  std::vector<Tensor> evaluate(const EvalContext&) const;
};

/// The type of what is taken out of a container with elements of type `element`, as output `output` of a node: sizes
/// that the type leaves open are fresh symbols. `rank` as of SequenceAt.
TensorType taken_out(const InferContext& context, const TensorType& element, int64_t rank, size_t output);

}  // namespace camshaft::ops
