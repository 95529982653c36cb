// The kernels of squeeze and excite as CUDA C++ text.
#pragma once

#include <string>
#include <vector>

#include "compile/region/scalar_program.h"

namespace camshaft::cuda {

/// What a program of these reads.
struct GateOperand {
  enum class Kind : uint8_t {
    given,     ///< a product's sum; of what combines image and gates an element of the image, …
    gate,      ///< … and one of the second product's results
    one,       ///< an operand of one element, …
    channels,  ///< … of one for each of the results of one pixel, or
    dense,     ///< of the image's shape
  };
  Kind kind = Kind::given;
  DType dtype = DType::f32;  ///< of the last three
};

struct GateProgram {
  ScalarProgram program;
  std::vector<GateOperand> inputs;  ///< of the program
  DType result = DType::f32;
};

struct SqueezeExciteForm {
  DType dtype = DType::f32;            ///< of image, weights and result: f32, f16 or bf16
  GateProgram squeeze, excite, scale;  ///< behind the products, and of image and gates
};

constexpr unsigned most_squeeze_excite_threads = 1024;

/// Kernels "squeeze_excite_" + "held" or "streamed" + "_vector" or "_any", with the parameter SqueezeExcite: see
/// device/squeeze_excite.cuh. Operands of the last three kinds are numbered through the programs in the order of
/// `form`.
std::string squeeze_excite_text(const SqueezeExciteForm& form);

}  // namespace camshaft::cuda
