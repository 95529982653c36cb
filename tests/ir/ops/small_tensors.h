// Small tensors by their elements, and errors by their messages.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ir/graph.h"

namespace camshaft {

/// The message of the Error that `run` throws; fails when it throws none.
template <class Run>
std::string error_of(Run&& run) {
  try {
    run();
  } catch (const Error& e) {
    return e.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

inline Tensor f32(Dims dims, const std::vector<float>& values) {
  return Tensor::of(DType::f32, std::move(dims), values);
}
inline Tensor i64(Dims dims, const std::vector<int64_t>& values) {
  return Tensor::of(DType::i64, std::move(dims), values);
}

}  // namespace camshaft
