#include "ir/provenance.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "ir/replaceable.h"

namespace camshaft {

namespace {

using Pointer = Provenance::Pointer;

// What a transform reads: null for an omitted operand, and for a literal that is too large to be kept.
Pointer as_operand(const Constant& constant) {
  if (constant.provenance || !constant.tensor) return constant.provenance;
  if (constant.tensor->bytes() > Provenance::most_literal_bytes || constant.tensor->is_elided()) return nullptr;
  return std::make_shared<const Provenance>(Provenance::Literal{constant.tensor});
}

bool stems_from_none(const std::vector<Constant>& constants) {
  return std::none_of(constants.begin(), constants.end(), [](const Constant& c) { return c.provenance != nullptr; });
}

// Each part once, from the outside in.
template <class Visit>
void visit_parts(const Provenance& whole, Visit visit) {
  std::unordered_set<const Provenance*> seen{&whole};
  std::vector<const Provenance*> open{&whole};
  while (!open.empty()) {
    const Provenance& part = *open.back();
    open.pop_back();
    visit(part);
    for (const Pointer& operand : part.operands())
      if (operand && seen.insert(operand.get()).second) open.push_back(operand.get());
  }
}

// The initializers alone: for what is too deep to be kept.
std::vector<Pointer> leaves(const std::vector<Constant>& from) {
  std::vector<Pointer> list;
  std::set<std::string> names;
  for (const Constant& constant : from)
    if (constant.provenance)
      visit_parts(*constant.provenance, [&](const Provenance& part) {
        if (const auto* i = part.as<Provenance::Initializer>(); i && names.insert(i->name).second)
          list.push_back(std::make_shared<const Provenance>(*i));
      });
  return list;
}

int deepest(const std::vector<Pointer>& operands) {
  int depth = 0;
  for (const Pointer& operand : operands)
    if (operand) depth = std::max(depth, operand->depth());
  return depth;
}

using Pair = std::pair<const Provenance*, const Provenance*>;

struct HashPair {
  size_t operator()(const Pair& pair) const {
    return std::hash<const void*>()(pair.first) * 31 + std::hash<const void*>()(pair.second);
  }
};

bool same_form(const Provenance& a, const Provenance& b) {
  if (a.form().index() != b.form().index() || a.operands().size() != b.operands().size()) return false;
  if (const auto* x = a.as<Provenance::Initializer>()) {
    const auto* y = b.as<Provenance::Initializer>();
    return x->name == y->name && x->dtype == y->dtype && x->dims == y->dims;
  }
  if (const auto* x = a.as<Provenance::Literal>()) return *x->tensor == *b.as<Provenance::Literal>()->tensor;
  if (const auto* x = a.as<Provenance::Transform>()) {
    const auto* y = b.as<Provenance::Transform>();
    return x->result == y->result && x->results == y->results && x->op == y->op;
  }
  if (const auto* x = a.as<Provenance::Unknown>()) return x->reason == b.as<Provenance::Unknown>()->reason;
  return true;
}

}  // namespace

Constant literal(Tensor tensor) {
  return {std::make_shared<const Tensor>(std::move(tensor))};
}

Provenance::Provenance(Form form, std::vector<Pointer> operands)
    : form_(std::move(form)), operands_(std::move(operands)), depth_(deepest(operands_) + 1) {
  const bool takes_operands = !as<Initializer>() && !as<Literal>();
  if (depth_ > most_depth || (!takes_operands && !operands_.empty()) || (as<Equal>() && operands_.empty()))
    throw Error(ErrorCode::internal, "the record of where a constant comes from is malformed");
  for (const Pointer& operand : operands_) {
    if (!operand && !as<Transform>())
      throw Error(ErrorCode::internal, "the record of where a constant comes from lacks an operand");
    can_be_redone_ = can_be_redone_ && (!operand || operand->can_be_redone_);
  }
  if (as<Unknown>()) can_be_redone_ = false;
}

Pointer Provenance::initializer(const std::string& name, const Tensor& tensor) {
  return std::make_shared<const Provenance>(Initializer{name, tensor.dtype(), tensor.dims()});
}

Pointer Provenance::transform(Op op, const std::vector<Constant>& operands, size_t result, size_t results) {
  if (stems_from_none(operands)) return nullptr;
  std::vector<Pointer> parts;
  for (const Constant& constant : operands) {
    parts.push_back(as_operand(constant));
    if (!parts.back() && constant.tensor)
      return unknown(fmt::format("the operator '{}' with a table that the model does not name", op.name()), operands);
  }
  if (deepest(parts) >= most_depth) return unknown("more steps than are recorded", operands);
  return std::make_shared<const Provenance>(Transform{std::move(op), result, results}, std::move(parts));
}

Pointer Provenance::equal(const std::vector<Constant>& constants) {
  if (stems_from_none(constants)) return nullptr;
  std::vector<Pointer> members, transforms;
  std::unordered_set<const Provenance*> known;
  std::unordered_set<std::string> names;
  bool has_literal = false;
  const auto add = [&](const Pointer& part) {
    if (!known.insert(part.get()).second) return;
    if (const auto* i = part->as<Initializer>()) {
      if (!names.insert(i->name).second) return;
    } else if (part->as<Literal>()) {
      if (std::exchange(has_literal, true)) return;
    } else {
      if (std::any_of(transforms.begin(), transforms.end(), [&](const Pointer& t) { return same(*t, *part); })) return;
      transforms.push_back(part);
    }
    members.push_back(part);
  };
  for (const Constant& constant : constants) {
    const Pointer part = as_operand(constant);
    if (!part) return unknown("a constant that was equal to another one, which the model does not name", constants);
    if (part->as<Equal>()) {
      for (const Pointer& member : part->operands()) add(member);
    } else {
      add(part);
    }
  }
  if (members.size() == 1) return members[0];
  if (deepest(members) >= most_depth) return unknown("more steps than are recorded", constants);
  return std::make_shared<const Provenance>(Equal{}, std::move(members));
}

Pointer Provenance::unknown(std::string reason, const std::vector<Constant>& from) {
  std::vector<Pointer> parts;
  for (const Constant& constant : from)
    if (constant.provenance) parts.push_back(constant.provenance);
  for (const Pointer& part : parts) fix_numbers(part, reason);
  if (deepest(parts) >= most_depth) parts = leaves(from);
  return std::make_shared<const Provenance>(Unknown{std::move(reason)}, std::move(parts));
}

bool same(const Provenance& a, const Provenance& b) {
  if (!same_form(a, b)) return false;
  std::unordered_set<Pair, HashPair> seen;
  std::vector<Pair> open{{&a, &b}};
  while (!open.empty()) {
    const auto [x, y] = open.back();
    open.pop_back();
    if (x == y || !seen.insert({x, y}).second) continue;
    if (!same_form(*x, *y)) return false;
    for (size_t i = 0; i < x->operands().size(); ++i) {
      const Pointer &p = x->operands()[i], &q = y->operands()[i];
      if ((p == nullptr) != (q == nullptr)) return false;
      if (p) open.emplace_back(p.get(), q.get());
    }
  }
  return true;
}

std::set<std::string> initializer_names(const Provenance& provenance) {
  std::set<std::string> names;
  visit_parts(provenance, [&](const Provenance& part) {
    if (const auto* initializer = part.as<Provenance::Initializer>()) names.insert(initializer->name);
  });
  return names;
}

}  // namespace camshaft
