// Index arithmetic for passes that read tensors through strides instead of moving their elements.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "ir/field.h"

namespace camshaft {

/// a / b, if it leaves nothing whatever the symbols are.
std::optional<Dim> divide(const Dim& a, const Dim& b);
/// a <= b whatever the symbols are.
bool provably_at_most(const Dim& a, const Dim& b);
/// Strides of a dense tensor, in elements.
Shape dense_strides(const Shape& shape);

/// Axes to iterate over, and where each index finds its element in several dense tensors: at offset + Σ index·stride.
/// An axis is split for all tensors when one of them needs that.
class AccessSpace {
 public:
  struct Access {
    Dim offset = 0;
    std::vector<Dim> strides;  ///< one an axis; 0: the axis does not matter
  };
  /// Where a dim of a tensor leads to in another one: each index counts `stride` there, and all are behind `offset`.
  struct Target {
    Dim stride = 0, offset = 0;
  };

  /// Roles are the caller's own numbers; both parts of a split axis have that of the whole.
  size_t add_axis(Dim size, int role);
  /// An access of the given strides, one an axis.
  size_t add_access(std::vector<Dim> strides);
  size_t copy_access(size_t access);

  size_t axes() const { return sizes_.size(); }
  const Dim& size(size_t axis) const { return sizes_[axis]; }
  int role(size_t axis) const { return roles_[axis]; }
  void set_role(size_t axis, int role) { roles_[axis] = role; }
  const Access& access(size_t i) const { return accesses_[i]; }
  void set_stride(size_t access, size_t axis, Dim stride) { accesses_[access].strides[axis] = std::move(stride); }
  void set_offset(size_t access, Dim offset) { accesses_[access].offset = std::move(offset); }

  /// Moves an access from a dense tensor of shape `from` to another tensor, to which the dims lead as `targets` say.
  /// False when it cannot be told which dim an axis goes along, or that it stays inside it; axes may have been split.
  bool remap(size_t access, const Shape& from, const std::vector<Target>& targets);
  /// For each axis the dim of `shape` that it goes along through this access (-1: none, its stride is 0 or its size 1),
  /// splitting axes that go along several. nullopt when that cannot be told.
  std::optional<std::vector<int>> dims_of_axes(size_t access, const Shape& shape);
  /// The first and the last index along dim `dim` of a dense tensor of that shape, splitting axes that go along
  /// several. nullopt when that cannot be told.
  std::optional<std::pair<Dim, Dim>> span(size_t access, const Shape& shape, size_t dim);

  /// Where an axis goes in a dense tensor: `coefficient` indices along `dim` a step; -1: nowhere.
  struct Place {
    int dim = -1;
    Dim coefficient = 0;
  };
  struct Placement {
    std::vector<Place> axes;
    std::vector<Dim> first, last;  ///< of each dim the indices at which the access starts and ends
  };
  /// How an access goes through a dense tensor of that shape, splitting axes that go along several of its dims. nullopt
  /// when that cannot be told.
  std::optional<Placement> placed(size_t access, const Shape& shape);

  /// Drops axes of size 1, and joins neighbours of one role that all accesses walk as one.
  void simplify();

 private:
  std::optional<Placement> placement(size_t access, const Shape& shape);
  std::optional<Place> place(size_t access, size_t axis, const Shape& shape, const Shape& strides);
  void split(size_t axis, const Dim& minor, const Dim& major);
  void erase_axis(size_t axis);

  std::vector<Dim> sizes_;
  std::vector<int> roles_;
  std::vector<Access> accesses_;
};

}  // namespace camshaft
