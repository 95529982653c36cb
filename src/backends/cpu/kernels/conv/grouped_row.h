// One row of a grouped convolution, one vector of outputs. Internal to grouped_conv.cpp.
#pragma once

#include <cstdint>

namespace camshaft::cpu {

/// Steps and offsets in floats.
struct GroupedRow {
  const float* input;           ///< the unit's copied lines
  const int64_t* line_offset;   ///< of each line that lies inside the image, from `input`
  const int64_t* line_weights;  ///< and of its weights, from `weights`
  int64_t lines;
  int64_t pixel_floats;  ///< from a pixel of the copy to the next
  int64_t channels;      ///< inputs of a group
  const int32_t* first;  ///< where each lane's group starts in a copied pixel; null: all lanes are of one group
  const float* weights;  ///< [line][channel][column][lane]
  int64_t kernel_w, stride, dilation;
  int64_t pixels;
  float* output;
  int64_t output_step;
  const float* bias;  ///< or null, as `residual`
  const float* residual;
  int64_t residual_step;
  int64_t lanes;  ///< that exist in the output
  float lo, hi;
};

/// A line of the input, cut into units: pixel x of unit u goes to `to + u * unit_step + x * pixel_floats`.
struct GroupedLine {
  const float* from;           ///< the first pixel's first unit
  int64_t from_step;           ///< from pixel to pixel
  int64_t first, past, width;  ///< pixels [first, past) of the copy are the input's, those around them zeros
  float* to;
  int64_t unit_step, pixel_floats;
  int64_t units, unit_floats, last_floats;  ///< input floats of a unit's pixel, and of the last unit's
};

void grouped_row(const GroupedRow& row);
void copy_grouped_line(const GroupedLine& line);

}  // namespace camshaft::cpu
