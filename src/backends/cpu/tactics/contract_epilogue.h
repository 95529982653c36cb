// Epilogues of contractions: a scalar program split into what the micro-kernel does in registers and what runs on
// finished blocks while they are in cache.
#pragma once

#include <array>
#include <limits>
#include <memory>
#include <vector>

#include "backends/cpu/kernels/gemm/gemm.h"
#include "backends/cpu/kernels/pointwise/tile_program.h"
#include "compile/kernel.h"
#include "compile/region/epilogue_view.h"

namespace camshaft::cpu {

/// What of an epilogue and of its contraction's operands a kernel takes.
struct ContractTakes {
  int residuals = 1;     ///< that it adds in registers, up to 1 + kMoreResiduals
  bool rounded = false;  ///< a first operand of bf16 (ops::takes_rounded()), and results that are stored so
};
/// Of estimates, which count no residuals, and of kernels of gemm() and conv().
inline constexpr ContractTakes kRoundedTaken{1, true};
inline constexpr ContractTakes kAllTaken{1 + kMoreResiduals, true};

/// The shape-independent part: which operand goes where. Offered only for f32 results, for those that
/// end in a cast to bf16 where these are taken, and for sums in i32, whose epilogue is a program alone that makes of
/// them whatever there are loops for.
class ContractEpilogue {
 public:
  /// `bias_input` is the contraction's own bias (a region input), or -1. nullopt when some type is not supported.
  static std::optional<ContractEpilogue> make(const RegionView& region, const ContractView& view, int32_t bias_input,
                                              const ContractTakes& takes = {});
  /// The same of a part of the region's epilogue.
  static std::optional<ContractEpilogue> make(const RegionView& region, const ContractView& contract,
                                              const EpilogueView& view, int32_t bias_input, const ContractTakes& takes);

  /// Whether the result may be written over region input `i`: the residual, which each element of the result reads just
  /// before it is written, unless the contraction or the rest of the epilogue reads the same input too (x + conv(x)).
  bool can_overwrite(size_t i) const {
    return residual_ >= 0 && residual_only_ && !stores_ && static_cast<int32_t>(i) == residual_;
  }

  /// Whether region input `i` may be a slice of wider rows for all that the epilogue does with it.
  bool reads_slices(size_t i) const;

  /// Whether region input `i` is among what is added, scaled and so on behind the contraction.
  bool reads(size_t i) const;

  /// Whether it is a bias, a clamp and an activation and no more: what needs no other tensor, and does not ask where in
  /// the result it is.
  bool is_plain() const { return residual_ < 0 && addend_ < 0 && !program_; }

  /// Whether something is left for a program over blocks of the result.
  bool has_program() const { return program_.has_value(); }

 private:
  friend class BoundEpilogue;
  int32_t bias_ = -1, residual_ = -1;  // region inputs
  std::vector<int32_t> more_residuals_;
  bool residual_only_ = false;  // nothing else reads the residual
  float lo_ = -std::numeric_limits<float>::infinity();
  float hi_ = std::numeric_limits<float>::infinity();
  std::optional<Activation> activation_;
  int32_t addend_ = -1;                        // region input, added to the activation's result
  std::optional<ScalarProgram> program_;       // what is left; input 0 is the block itself
  bool stores_ = false;                        // its result is narrower than sums, which have no place in the result
  std::vector<int32_t> loads_;                 // region inputs of program inputs 1, 2, …
  std::vector<EpilogueView::Layout> layouts_;  // of those
};

/// The epilogue for concrete shapes. bind() before each run; allocates nothing then.
class BoundEpilogue {
 public:
  /// `columns` is the size of the result's last axis; `shapes` are the region's.
  BoundEpilogue(const ContractEpilogue& epilogue, const KernelShapes& shapes, int64_t columns);
  BoundEpilogue(const BoundEpilogue&) = delete;
  BoundEpilogue& operator=(const BoundEpilogue&) = delete;

  /// The epilogue for the micro-kernel, with this run's pointers. The result lies at `c`; it may store it itself
  /// (Epilogue::store) where rounded ones are taken.
  Epilogue bind(const LaunchArguments& arguments, void* c);
  bool has_program() const { return static_cast<bool>(program_); }

  /// Of sums in i32: the SumsCallback (int8_gemm.h) that runs the program on blocks of them, into the result. `self` is
  /// a BoundEpilogue that was bound.
  static void run_sums(void* self, const int32_t* block, int64_t ld, int64_t row0, int64_t rows, int64_t col0,
                       int64_t cols);

 private:
  struct Operand {
    int32_t input = -1;
    int64_t width = 4;                      // bytes an element
    int64_t row_stride = 0;                 // elements from one row to the next
    bool vector = false;                    // one element a column
    std::vector<int64_t> row_offsets;       // of general layouts that do not lie row_stride apart, in elements
    std::unique_ptr<std::byte[]> repeated;  // of one element a column, where blocks are flat: run_rows_ times
    const std::byte* data = nullptr;
  };
  static void run_block(void* self, int64_t row0, int64_t rows, int64_t col0, int64_t cols);
  static void store_block(void* self, const float* block, int64_t ld, int64_t row0, int64_t rows, int64_t col0,
                          int64_t cols);
  // Row r of the block is at from + r * from_pitch bytes.
  void run(const std::byte* from, int64_t from_pitch, int64_t row0, int64_t rows, int64_t col0, int64_t cols) const;

  const ContractEpilogue& epilogue_;
  int64_t columns_;
  int64_t width_;                                  // bytes of an element of the result
  int64_t pitch_, residual_pitch_, addend_pitch_;  // elements from row to row of the result, residual and addend
  std::array<int64_t, kMoreResiduals> more_residual_pitches_{};
  std::unique_ptr<TileProgram> program_;
  bool has_steps_ = true;  // no operand has offsets
  // No operand that differs by row other than dense ones: `run_rows_` whole rows are one run of elements.
  bool flat_ = true;
  int64_t run_rows_ = std::numeric_limits<int64_t>::max();
  std::vector<Operand> operands_;
  std::byte* c_ = nullptr;
};

}  // namespace camshaft::cpu
