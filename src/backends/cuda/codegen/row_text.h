// The kernels of softmax and of the normalisations as CUDA C++ text.
#pragma once

#include <cstdint>
#include <string>

#include "base/dtype.h"
#include "compile/region/scalar_program.h"

namespace camshaft::cuda {

/// Most threads of a block.
constexpr unsigned row_threads = 512;

/// Kernels of three forms: "held_one" and "held", for rows of which each thread holds one chunk or up to `chunks`, and
/// "any_length" for rows of any length; each with one element a chunk, and with "_vector" behind its name with
/// `vector_elements`.
struct RowText {
  std::string text;
  int vector_elements = 4;  ///< 16 bytes
  int vector_chunks = 8;
  int chunks = 8;
};

/// Parameters (Rows, in, out); beside the three forms "columns" (Columns, in, out). `dtype` is f64, f32, f16 or bf16.
RowText softmax_text(bool logarithm, DType dtype);

/// What else becomes of normed rows: bytes, by a program of their elements.
struct NormSteps {
  DType dtype = DType::i8;
  ScalarProgram program;    ///< of an input in the type of the rows, and perhaps one of f32 for each of their columns
  int32_t rows_load = 0;    ///< which of its inputs the rows are
  bool gives_rows = false;  ///< the rows themselves are written too
};

/// Parameters (Rows, in, scale, bias, out), and behind them `steps` and `of_columns` where there are some. `centred`:
/// whether the mean is taken out; `dense`: rows are dense, and the elements of each have a scale and a bias each;
/// `constant_parameters`: no kernel writes these; `length`: of most rows, 0 where nobody knows.
RowText normalize_text(bool centred, bool dense, DType dtype, DType scale, DType bias, bool constant_parameters,
                       int64_t length = 0, const NormSteps* steps = nullptr);

/// Two kernels of device/group_columns.cuh, for group norms of narrow groups in channels-last form, each also with
/// "_vector" behind its name: "moments" (GroupColumns, in, partial) and "normalize" (GroupColumns, in, scale, bias,
/// out, partial). `vector_elements` alone is set beside the text. `constant_parameters` as above.
RowText group_columns_text(DType dtype, DType scale, DType bias, bool constant_parameters);

/// Threads of their blocks.
constexpr unsigned column_threads = 256;

}  // namespace camshaft::cuda
