// The reference evaluation of sequence_construct, sequence_insert, sequence_erase, sequence_at, sequence_length,
// split_to_sequence, concat_from_sequence and sequence_map.
#include "ir/ops/sequence.h"

#include <algorithm>
#include <memory>
#include <mutex>

#include "base/budget.h"
#include "base/work_scope.h"
#include "ir/ops/move.h"
#include "ir/ops/shape_rules.h"
#include "reference/control/bodies.h"
#include "reference/elements.h"
#include "reference/evaluate.h"
#include "reference/move/axis_slice.h"
#include "reference/operations.h"

namespace camshaft::ops {

namespace {

// `size` is the number of places.
int64_t position_in(const Tensor& tensor, int64_t size) {
  if (tensor.size() != 1) fail_rule("the position has {} elements instead of one", tensor.size());
  const int64_t given = tensor.dtype() == DType::i32 ? *tensor.as<int32_t>() : *tensor.as<int64_t>();
  const int64_t position = given < 0 ? given + size : given;
  if (position < 0 || position >= size) fail_rule("position {} does not exist: there are {}", given, size);
  return position;
}

std::vector<Tensor> elements_of(const Tensor& sequence) {
  return {sequence.as<Tensor>(), sequence.as<Tensor>() + sequence.size()};
}

// How many elements are copied only running tells.
void take_operations_of_copies(int64_t elements) {
  if (const auto budget = current_budget())
    budget->take_operations(operations_of_an_object * static_cast<double>(elements));
}

// Elements of sequences that grew out of each other: each sees as many of the first as it had when it was made.
class SharedElements {
 public:
  explicit SharedElements(size_t capacity) : claim_(capacity * sizeof(Tensor)) { list_.reserve(capacity); }

  // Puts an element behind the first `size`; false where another is there already, or no more have room.
  bool append(size_t size, const Tensor& element) {
    const std::lock_guard lock(mutex_);
    if (list_.size() != size || size == list_.capacity()) return false;
    list_.push_back(element);
    return true;
  }
  const Tensor* data() const { return list_.data(); }

  // By its type an owner is recognised as that of such elements.
  struct Release {
    void operator()(const SharedElements* elements) const { delete elements; }
  };

 private:
  std::mutex mutex_;
  const MemoryClaim claim_;
  std::vector<Tensor> list_;  // never grows beyond what was reserved: others read it meanwhile
};

// The sequence with one more element behind the others. It shares their memory as long as nothing else was put behind
// them: a loop that collects takes the time of an element, and not of all, in each turn.
Tensor appended(const Tensor& sequence, const Tensor& element) {
  const auto count = static_cast<size_t>(sequence.size());
  const Tensor kept = element.owned();
  const auto made = [&](const Tensor* elements, const std::shared_ptr<const void>& owner) {
    const auto* bytes = reinterpret_cast<const std::byte*>(elements);
    return Tensor(DType::sequence, {sequence.size() + 1}, {bytes, (count + 1) * sizeof(Tensor)}, owner);
  };
  if (std::get_deleter<SharedElements::Release>(sequence.owner())) {
    // Whoever made the elements made them writable.
    auto* shared = static_cast<SharedElements*>(const_cast<void*>(sequence.owner().get()));
    if (shared->append(count, kept)) return made(shared->data(), sequence.owner());
  }
  constexpr size_t least_capacity = 4;
  const size_t capacity = std::max(least_capacity, 2 * count);
  check_fits_memory(DType::sequence, {static_cast<int64_t>(capacity)});
  take_operations_of_copies(sequence.size());
  const std::shared_ptr<SharedElements> grown(new SharedElements(capacity), SharedElements::Release());
  PacedCancellation cancellation;
  for (int64_t i = 0; i < sequence.size(); ++i) {
    cancellation.did(1);
    grown->append(static_cast<size_t>(i), sequence.element(i));
  }
  grown->append(count, kept);
  return made(grown->data(), grown);
}

}  // namespace

std::vector<Tensor> SequenceConstruct::evaluate(const EvalContext& context) const {
  return {Tensor::sequence(context.inputs)};
}

std::vector<Tensor> SequenceInsert::evaluate(const EvalContext& context) const {
  const Tensor& sequence = context.input(0);
  const int64_t size = sequence.size();
  // Negative positions count the elements that are there; the place behind the last can only be named as `size`.
  int64_t position = size;
  if (context.has(2)) {
    const Tensor& given = context.input(2);
    const bool at_end = given.size() == 1 && given.to_ints()[0] == size;
    if (!at_end) position = position_in(given, size);
  }
  if (position == size) return {appended(sequence, context.input(1))};
  take_operations_of_copies(size);
  Tensor longer(DType::sequence, {size + 1});
  Tensor* to = std::copy_n(sequence.as<Tensor>(), position, longer.as_mutable<Tensor>());
  *to = context.input(1).owned();
  std::copy_n(sequence.as<Tensor>() + position, size - position, to + 1);
  return {std::move(longer)};
}

std::vector<Tensor> SequenceErase::evaluate(const EvalContext& context) const {
  const int64_t size = context.input(0).size();
  if (size == 0) fail_rule("an empty sequence has no element to erase");
  const int64_t position = context.has(1) ? position_in(context.input(1), size) : size - 1;
  take_operations_of_copies(size);
  const auto* from = context.input(0).as<Tensor>();
  Tensor shorter(DType::sequence, {size - 1});
  Tensor* to = std::copy_n(from, position, shorter.as_mutable<Tensor>());
  std::copy_n(from + position + 1, size - 1 - position, to);
  return {std::move(shorter)};
}

std::vector<Tensor> SequenceAt::evaluate(const EvalContext& context) const {
  const Tensor& sequence = context.input(0);
  return {sequence.element(position_in(context.input(1), sequence.size())).owned()};
}

std::vector<Tensor> SequenceLength::evaluate(const EvalContext& context) const {
  return {Tensor::of(DType::i64, {}, std::vector<int64_t>{context.input(0).size()})};
}

std::vector<Tensor> SplitToSequence::evaluate(const EvalContext& context) const {
  const Tensor x = unpack_subbyte(context.input(0));
  const int64_t size = x.dims().at(static_cast<size_t>(axis));
  std::vector<int64_t> sizes;
  // Before there is a list of them: of an empty tensor there may be any number.
  const auto check_count = [](int64_t count) {
    check_fits_memory(DType::sequence, {count});
    take_operations_of_copies(count);
  };
  if (!context.has(1)) {
    check_count(size);
    sizes.assign(static_cast<size_t>(size), 1);
  } else if (context.input(1).rank() == 0) {
    const int64_t each = context.input(1).to_ints()[0];
    if (each <= 0) fail_rule("pieces cannot be {} long", each);
    check_count(size / each);
    for (int64_t at = 0; at < size; at += each) sizes.push_back(std::min(each, size - at));
  } else {
    check_count(context.input(1).size());
    sizes = context.input(1).to_ints();
    int64_t left = size;
    for (const int64_t length : sizes) {
      if (length < 0 || length > left)
        fail_rule("pieces of sizes {} do not make up an axis of {}", to_string(sizes), size);
      left -= length;
    }
    if (left != 0) fail_rule("pieces of sizes {} do not make up an axis of {}", to_string(sizes), size);
  }
  std::vector<Tensor> pieces;
  int64_t at = 0;
  for (const int64_t length : sizes) {
    Tensor part = pack_subbyte(slice_axis(x, axis, at, length), context.input(0).dtype());
    at += length;
    if (!context.has(1) && !keep_axis) part = part.reshaped(without_axis(part.dims(), axis));
    pieces.push_back(std::move(part));
  }
  return {Tensor::sequence(std::move(pieces))};
}

std::vector<Tensor> ConcatFromSequence::evaluate(const EvalContext& context) const {
  std::vector<Tensor> parts = elements_of(context.input(0));
  if (parts.empty()) fail_rule("an empty sequence cannot be joined to one tensor");
  if (new_axis) {
    for (Tensor& part : parts) {
      if (axis > part.rank()) fail_rule("an element of rank {} has no axis {}", part.rank(), axis);
      part = part.reshaped(with_axis(part.dims(), axis));
    }
  }
  if (axis >= parts[0].rank()) fail_rule("an element of rank {} has no axis {}", parts[0].rank(), axis);
  return Concat{axis}.evaluate({parts, context.output_types, context.bindings, context.bodies, context.pool});
}

std::vector<Tensor> SequenceMap::evaluate(const EvalContext& context) const {
  const Graph& body = context.bodies.at(0);
  const int64_t size = context.input(0).size();
  const auto mapped = [&](size_t i) {
    return i < static_cast<size_t>(count) && context.input(i).dtype() == DType::sequence;
  };
  for (size_t i = 1; i < context.inputs.size(); ++i)
    if (mapped(i) && context.input(i).size() != size)
      fail_rule("sequence {} has {} elements, the first one {}", i, context.input(i).size(), size);
  EvaluateOptions options = body_options(context);
  std::vector<std::vector<Tensor>> results(body.outputs.size());
  std::vector<Tensor> inputs = context.inputs;
  for (int64_t n = 0; n < size; ++n) {
    if (context.cancellation) context.cancellation->check("mapping a sequence");
    for (size_t i = 0; i < inputs.size(); ++i)
      if (mapped(i)) inputs[i] = context.input(i).element(n);
    std::vector<Tensor> given = run_body(context, body, inputs, options);
    for (size_t o = 0; o < given.size(); ++o) results[o].push_back(std::move(given[o]));
  }
  std::vector<Tensor> out;
  for (std::vector<Tensor>& elements : results) out.push_back(Tensor::sequence(std::move(elements)));
  return out;
}

}  // namespace camshaft::ops
