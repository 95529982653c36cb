// The two data transforms of winograd.cpp. Internal to the kernels.
#pragma once

#include "backends/cpu/kernels/conv/winograd_tile.h"

namespace camshaft::cpu {

/// transformed[p] = point p of B^T d B, d the input tile with zeros outside the image. Writes whole vectors: each
/// point needs room for in_channels rounded up to 16.
void winograd_input(const WinogradTile& tile);
/// output = epilogue(A^T m A), m the points of `product`, clipped to rows x columns.
void winograd_output(const WinogradTile& tile);

}  // namespace camshaft::cpu
