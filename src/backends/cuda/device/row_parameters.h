// What softmax and norms are given: rows that a group of threads goes through.
#pragma once

#include "backends/cuda/device/divisor.h"

namespace camshaft::cuda {

struct RowParameters {
  u32 rows = 0, length = 0;        ///< length in elements
  u32 lanes = 1, lanes_shift = 0;  ///< threads of a row: 1 << lanes_shift
  u32 width = 0;                   ///< parameters of a group of rows: scales and biases
  Divisor groups;                  ///< rows that begin `inner` from each other, the next such group `outer` from it
  Divisor run;                     ///< elements that follow each other; the next run begins `pitch` elements behind
  u32 by_run = 0;                  ///< whether each run has one parameter; else each element of a run
  i64 outer = 0, inner = 0, pitch = 0;
  f64 epsilon = 0, part = 0;  ///< of normalisations; 1 / length
  f64 least = 0;              ///< of the mean square
};

}  // namespace camshaft::cuda
