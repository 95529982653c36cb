// A library's table of a custom operator, with what its version does not have yet.
#pragma once

#include <algorithm>
#include <string>

#include "plugin/ort/abi.h"

namespace camshaft::ort {

class OpTable {
 public:
  explicit OpTable(const CustomOp& op) : op_(op) {}
  const CustomOp& get() const { return op_; }
  std::string name() const { return op_.name(&op_); }
  bool runs_on_host() const {
    const char* provider = op_.execution_provider ? op_.execution_provider(&op_) : nullptr;
    return !provider || std::string(provider) == "CPUExecutionProvider";
  }
  std::string provider() const { return op_.execution_provider(&op_); }
  size_t input_count() const { return op_.input_count(&op_); }
  size_t output_count() const { return op_.output_count(&op_); }
  /// Operands beyond the last parameter are the variadic one's.
  size_t input_parameter(size_t operand) const { return std::min(operand, input_count() - 1); }
  size_t output_parameter(size_t operand) const { return std::min(operand, output_count() - 1); }
  ElementType input_type(size_t parameter) const { return op_.input_type(&op_, parameter); }
  ElementType output_type(size_t parameter) const { return op_.output_type(&op_, parameter); }
  Characteristic input_is(size_t parameter) const {
    return has(since_characteristics) && op_.input_characteristic ? op_.input_characteristic(&op_, parameter)
                                                                  : required_operand;
  }
  Characteristic output_is(size_t parameter) const {
    return has(since_characteristics) && op_.output_characteristic ? op_.output_characteristic(&op_, parameter)
                                                                   : required_operand;
  }
  int least_variadic_inputs() const {
    return has(since_variadic) && op_.variadic_input_least ? op_.variadic_input_least(&op_) : 1;
  }
  bool inputs_are_homogeneous() const {
    return !has(since_variadic) || !op_.variadic_input_is_homogeneous || op_.variadic_input_is_homogeneous(&op_) != 0;
  }
  int least_variadic_outputs() const {
    return has(since_variadic) && op_.variadic_output_least ? op_.variadic_output_least(&op_) : 1;
  }
  bool has_create_v2() const { return has(since_v2_and_shapes) && op_.create_kernel_v2; }
  bool has_compute_v2() const { return has(since_v2_and_shapes) && op_.compute_v2; }
  bool infers_shapes() const { return has(since_v2_and_shapes) && op_.infer_shapes; }
  /// Whether it is of this version of its domain's operator set.
  bool is_of(int64_t version) const {
    if (!has(since_v2_and_shapes) || !op_.start_version) return true;
    return version >= op_.start_version(&op_) && (!op_.end_version || version <= op_.end_version(&op_));
  }

 private:
  bool has(uint32_t version) const { return op_.version >= version; }
  const CustomOp& op_;
};

}  // namespace camshaft::ort
