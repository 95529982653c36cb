// Numbers that an operator computes in f64, as many as a tensor has.
#pragma once

#include "ir/tensor.h"
#include "reference/element_io.h"

namespace camshaft::ops {

/// Counts in the budget of whoever works, as tensors do: beside an image in f32 it is twice as large.
class Doubles {
 public:
  Doubles() = default;
  /// Zeros.
  explicit Doubles(int64_t count) : values_(DType::f64, {count}) {}
  explicit Doubles(const Tensor& tensor) : Doubles(tensor.size()) {
    load_elements(tensor.dtype(), tensor.data(), 0, 1, tensor.size(), data());
  }

  bool empty() const { return values_.size() == 0; }
  double* data() { return values_.as_mutable<double>(); }
  const double* data() const { return values_.as<double>(); }
  double operator[](size_t i) const { return data()[i]; }
  /// To a tensor of as many elements.
  void store(Tensor& to) const { store_elements(to.dtype(), to.mutable_data(), 0, 1, to.size(), data()); }

 private:
  Tensor values_;
};

}  // namespace camshaft::ops
