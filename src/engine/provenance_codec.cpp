#include "engine/provenance_codec.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/hash.h"
#include "engine/damaged.h"
#include "engine/field_codec.h"
#include "ir/graph.h"
#include "ir/ops/operators.h"

namespace camshaft {

namespace {

// No operator gives more; what is asked of one is evaluated.
constexpr uint32_t most_results = 1 << 16;

// The variant's order is the schema's.
template <format::ProvenanceForm form>
using FormAt = std::variant_alternative_t<static_cast<size_t>(form), Provenance::Form>;
static_assert(std::is_same_v<FormAt<format::ProvenanceForm::initializer>, Provenance::Initializer>);
static_assert(std::is_same_v<FormAt<format::ProvenanceForm::literal>, Provenance::Literal>);
static_assert(std::is_same_v<FormAt<format::ProvenanceForm::transform>, Provenance::Transform>);
static_assert(std::is_same_v<FormAt<format::ProvenanceForm::equal>, Provenance::Equal>);
static_assert(std::is_same_v<FormAt<format::ProvenanceForm::unknown>, Provenance::Unknown>);

class Decoder {
 public:
  Decoder(const format::Engine& engine, CopyBudget& budget) : budget_(budget) {
    if (engine.operators())
      for (const format::Operator* op : *engine.operators())
        operators_.push_back(
            camshaft::operators().make(decode_text(op->name(), budget), decode_fields(op->fields(), budget)));
  }

  void add(const format::Provenance& stored) {
    std::vector<Provenance::Pointer> operands = decode_operands(stored);
    made_.push_back(std::make_shared<const Provenance>(decode_form(stored, !operands.empty()), std::move(operands)));
  }

  ProvenanceList finish() { return std::move(made_); }

 private:
  std::vector<Provenance::Pointer> decode_operands(const format::Provenance& stored) {
    const bool is_transform = stored.form() == format::ProvenanceForm::transform;
    std::vector<Provenance::Pointer> operands;
    for (const int32_t entry : copy_numbers<int32_t>(stored.operands(), budget_)) {
      if (entry == -1 && is_transform) {
        operands.push_back(nullptr);
        continue;
      }
      if (entry < 0 || static_cast<size_t>(entry) >= made_.size())
        fail_corrupt(fmt::format("record {} of where a constant comes from refers to record {}", made_.size(), entry));
      operands.push_back(made_[static_cast<size_t>(entry)]);
      if (operands.back()->depth() >= Provenance::most_depth)
        fail_corrupt(fmt::format("record {} of where a constant comes from is nested too deep", made_.size()));
    }
    return operands;
  }

  Provenance::Form decode_form(const format::Provenance& stored, bool has_operands) {
    switch (stored.form()) {
      case format::ProvenanceForm::initializer: {
        if (has_operands) fail_corrupt("an initializer is made of others");
        Provenance::Initializer initializer{decode_text(stored.text(), budget_), DType::f32, {}};
        decode_type(stored, initializer.name, initializer.dtype, initializer.dims);
        return initializer;
      }
      case format::ProvenanceForm::literal: {
        if (has_operands) fail_corrupt("a literal is made of others");
        DType dtype = DType::f32;
        Dims dims;
        decode_type(stored, "literal", dtype, dims);
        return Provenance::Literal{std::make_shared<const Tensor>(
            decode_elements(dtype, std::move(dims), stored.inlined(), "literal", budget_))};
      }
      case format::ProvenanceForm::transform:
        if (stored.op() >= operators_.size()) fail_corrupt(fmt::format("there is no operator {}", stored.op()));
        if (stored.results() > most_results || stored.result() >= stored.results())
          fail_corrupt(fmt::format("an operator gives no result {} of {}", stored.result(), stored.results()));
        return Provenance::Transform{operators_[stored.op()], stored.result(), stored.results()};
      case format::ProvenanceForm::equal:
        if (!has_operands) fail_corrupt("a constant stands for none");
        return Provenance::Equal{};
      case format::ProvenanceForm::unknown:
        return Provenance::Unknown{decode_text(stored.text(), budget_)};
    }
    fail_corrupt("where a constant comes from is recorded in an unknown way");
  }

  void decode_type(const format::Provenance& stored, const std::string& name, DType& dtype, Dims& dims) {
    if (stored.dtype() >= dtype_count) fail_corrupt(fmt::format("there is no dtype {}", stored.dtype()));
    dtype = static_cast<DType>(stored.dtype());
    dims = copy_numbers<int64_t>(stored.dims(), budget_);
    const bool is_negative = std::any_of(dims.begin(), dims.end(), [](int64_t d) { return d < 0; });
    const TensorType type{dtype, Shape(dims.begin(), dims.end())};
    if (is_container(dtype) || is_negative || !too_large(type).empty())
      fail_corrupt(fmt::format("'{}' is recorded as {}", name, to_string(type)));
  }

  CopyBudget& budget_;
  std::vector<Op> operators_;
  ProvenanceList made_;
};

}  // namespace

uint32_t ProvenanceEncoder::add_operator(const Op& op) {
  const auto [begin, end] = operators_by_name_.equal_range(op.name());
  for (auto it = begin; it != end; ++it)
    if (operators_[it->second] == op) return it->second;
  const auto index = static_cast<uint32_t>(operators_.size());
  operators_.push_back(op);
  operators_by_name_.emplace(op.name(), index);
  return index;
}

uint64_t ProvenanceEncoder::hash_of(const Provenance& leaf) {
  if (const auto* initializer = leaf.as<Provenance::Initializer>()) return hash64(initializer->name);
  const std::vector<uint8_t> elements = element_bytes(*leaf.as<Provenance::Literal>()->tensor);
  return hash64(std::as_bytes(std::span(elements)));
}

std::optional<int32_t> ProvenanceEncoder::find_same(const Provenance& leaf) const {
  const auto [begin, end] = leaves_.equal_range(hash_of(leaf));
  for (auto it = begin; it != end; ++it)
    if (same(*entries_[static_cast<size_t>(it->second)].part, leaf)) return it->second;
  return std::nullopt;
}

// Recurses as deep as the expression is, which is bounded.
int32_t ProvenanceEncoder::add(const Provenance::Pointer& provenance) {
  if (const auto it = known_.find(provenance.get()); it != known_.end()) return it->second;
  const bool is_leaf = provenance->as<Provenance::Initializer>() || provenance->as<Provenance::Literal>();
  if (is_leaf)
    if (const auto found = find_same(*provenance)) return known_[provenance.get()] = *found;
  Entry entry{provenance, 0, {}};
  for (const Provenance::Pointer& operand : provenance->operands())
    entry.operands.push_back(operand ? add(operand) : -1);
  if (const auto* transform = provenance->as<Provenance::Transform>()) entry.op = add_operator(transform->op);
  const auto index = static_cast<int32_t>(entries_.size());
  entries_.push_back(std::move(entry));
  if (is_leaf) leaves_.emplace(hash_of(*provenance), index);
  return known_[provenance.get()] = index;
}

flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<format::Operator>>> ProvenanceEncoder::operators(
    flatbuffers::FlatBufferBuilder& b) const {
  std::vector<flatbuffers::Offset<format::Operator>> list;
  for (const Op& op : operators_) {
    const auto name = b.CreateString(std::string(op.name()));
    const auto fields = encode_fields(b, op.fields());
    list.push_back(format::CreateOperator(b, name, fields));
  }
  return b.CreateVector(list);
}

flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<format::Provenance>>> ProvenanceEncoder::provenances(
    flatbuffers::FlatBufferBuilder& b) const {
  std::vector<flatbuffers::Offset<format::Provenance>> list;
  for (const Entry& entry : entries_) {
    const auto* initializer = entry.part->as<Provenance::Initializer>();
    const auto* literal = entry.part->as<Provenance::Literal>();
    const auto* transform = entry.part->as<Provenance::Transform>();
    const auto* unknown = entry.part->as<Provenance::Unknown>();
    flatbuffers::Offset<flatbuffers::String> text;
    flatbuffers::Offset<flatbuffers::Vector<int64_t>> dims;
    flatbuffers::Offset<flatbuffers::Vector<uint8_t>> inlined;
    flatbuffers::Offset<flatbuffers::Vector<int32_t>> operands;
    if (initializer || unknown) text = b.CreateString(initializer ? initializer->name : unknown->reason);
    if (initializer || literal) dims = b.CreateVector(initializer ? initializer->dims : literal->tensor->dims());
    if (literal) inlined = b.CreateVector(element_bytes(*literal->tensor));
    if (!entry.operands.empty()) operands = b.CreateVector(entry.operands);
    format::ProvenanceBuilder p(b);
    p.add_form(static_cast<format::ProvenanceForm>(entry.part->form().index()));
    if (!text.IsNull()) p.add_text(text);
    if (initializer || literal)
      p.add_dtype(static_cast<uint8_t>(initializer ? initializer->dtype : literal->tensor->dtype()));
    if (!dims.IsNull()) p.add_dims(dims);
    if (!inlined.IsNull()) p.add_inlined(inlined);
    p.add_op(entry.op);
    if (transform) p.add_result(static_cast<uint32_t>(transform->result));
    if (transform) p.add_results(static_cast<uint32_t>(transform->results));
    if (!operands.IsNull()) p.add_operands(operands);
    list.push_back(p.Finish());
  }
  return b.CreateVector(list);
}

ProvenanceList decode_provenances(const format::Engine& engine, CopyBudget& budget) {
  Decoder decoder(engine, budget);
  if (engine.provenances())
    for (const format::Provenance* stored : *engine.provenances()) decoder.add(*stored);
  return decoder.finish();
}

}  // namespace camshaft
