// Contraction kernels as CUDA C++ text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backends/cuda/driver/device_features.h"
#include "base/dtype.h"

namespace camshaft::cuda {

/// The part of a result that one block computes.
struct ContractTile {
  int m = 64, n = 64;
  int warps_m = 2, warps_n = 2, warps_k = 1;
  int stages = 4;
  bool by_warpgroups = false;  ///< by wgmma: f16, bf16, bytes on compute capability 9.0; warps_m is a multiple of 4
  bool tf32 = false;           ///< f32 on tensor cores, rounded to TF32: from compute capability 8.0 on
  bool waits = false;          ///< by wgmma: for each slice's products, and has one more on its way in the same room
  /// By wgmma, of a convolution for which can_use_patches(): n columns of so many rows of the result, whose windows are
  /// read from one patch of the image. 0: slices are copied.
  int patch_rows = 0;
  /// By wgmma, of one block a tile: what comes behind the sums takes them from registers, not from shared memory.
  bool from_registers = false;
  /// The same, of blocks that stay: one warpgroup has the tile, of three that a block has.
  bool persistent = false;
  /// Of such blocks, where their operands are copied as tensors: so many have tiles below each other, and copy B for
  /// each other.
  int cluster = 1;
  int step_bytes = 0;  ///< what each stage has besides, of a B that is made of weights of few bits: see step_bytes_of()

  /// That share a tile.
  int threads() const { return 32 * warps_m * warps_n * warps_k; }
  int threads_of_block() const { return persistent ? 3 * threads() : threads(); }
  /// Of dynamic shared memory: the ring, or the sums on their way out.
  int shared_bytes() const;
  /// What blocks of no more than so many slices need of it.
  int shared_bytes(int slices) const;
  /// What each block of a cluster of `splits` that share a tile needs behind that, for sums that others give it.
  int cluster_bytes(int splits) const;
};

/// Of a convolution, along two axes.
struct ContractWindow {
  int64_t channels = 1;  ///< of a group
  int64_t height = 1, width = 1, stride_y = 1, stride_x = 1, dilation_y = 1, dilation_x = 1;
  bool row_is_tap = false;  ///< a row of taps counts as one; the channels are those of all its pixels
  uint8_t padding = 0;      ///< the byte that stands around an image of bytes: its zero point
};

/// Of B that is made of weights of few bits.
struct StepForm {
  int bits = 4;
  DType scale = DType::f32;  ///< or f16, of a product of f16
  int shared = 1;            ///< matrices of a slice (16 of k each) that share a scale: a divisor of their number
  bool has_zeros = false;    ///< zero points are one for each block and column, else one for all
};

struct ContractForm {
  DType dtype = DType::f32;  ///< of A and B: f32, f16, bf16, f8e4m3 or f8e5m2; i8 or u8 of A, with a B of i8
  std::optional<ContractWindow> window = {};  ///< A is read through a convolution's windows
  bool b_by_columns = false;
  bool tensor_cores = false;           ///< else f32, plain unless the tile says otherwise
  bool tf32 = false;                   ///< tiles may say so
  std::optional<StepForm> steps = {};  ///< B is made of them, by rows
  bool finishes_rows = false;  ///< what comes behind the sums has to do with all of a row, not with elements alone
  bool aligned = false;        ///< rows of A and B are read by 16 aligned bytes; else they may lie anyhow
  bool tensor_copies = false;  ///< if it is one aligned product, A and B may be copied as TensorMaps say
};

/// What a stage has of the steps of a slice of B.
int step_bytes_of(const ContractForm& form, const ContractTile& tile);

/// Whether tiles with patches can compute this (but for groups).
bool can_use_patches(const ContractForm& form, const DeviceFeatures& features);
/// Pixels of a row of the patch for so many columns of the result.
int patch_pitch(const ContractWindow& window, int columns);
/// Of dynamic shared memory, for such a patch.
int patch_bytes(const ContractWindow& window, const ContractTile& tile, int columns);
/// Columns of the result that a block computes at most from a patch.
constexpr int most_patch_columns = 128;

/// The kernel "contract", whose parameter is ContractParameters, and of persistent tiles TensorMaps, which count with
/// tensor copies alone. `finish`: see finish_text().
std::string contract_text(const ContractForm& form, const ContractTile& tile, const std::string& finish);

/// The kernel "finish", whose parameter is ContractParameters too: what comes behind sums that a library has left in c,
/// in place. `tiles` there divides by the pieces of 8 columns of a row. `type` is that of c.
std::string finish_kernel_text(DType type, bool aligned, const std::string& finish);
constexpr unsigned finish_threads = 256;

}  // namespace camshaft::cuda
