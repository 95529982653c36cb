#include "backends/cpu/passes.h"

#include "backends/cpu/kernels/gemm/matrix_unit.h"
#include "backends/cpu/passes/batch_invariant_products.h"
#include "backends/cpu/passes/chain_convolutions.h"
#include "backends/cpu/passes/chain_fills.h"
#include "backends/cpu/passes/chain_norms.h"
#include "backends/cpu/passes/chain_rotary_tables.h"
#include "backends/cpu/passes/narrow_exact_scales.h"
#include "backends/cpu/passes/store_rounded.h"
#include "optimize/canonicalize/canonicalization.h"
#include "optimize/canonicalize/conv_to_scale.h"
#include "optimize/canonicalize/eliminate_common_subexpressions.h"
#include "optimize/canonicalize/fold_constants.h"
#include "optimize/canonicalize/merge_convolutions.h"
#include "optimize/canonicalize/simplify_moves.h"
#include "optimize/fuse/fuse.h"
#include "optimize/fuse/join_contractions.h"
#include "optimize/fuse/repeat_widening.h"
#include "optimize/layout/compose_moves.h"
#include "optimize/layout/compose_transposes.h"
#include "optimize/layout/narrow_transposes.h"
#include "optimize/layout/nest_concats.h"
#include "optimize/layout/resize_after_conv.h"
#include "optimize/layout/to_channels_last.h"
#include "optimize/layout/transposes_past_products.h"
#include "optimize/precision/allow_rounding.h"
#include "optimize/precision/expand_quantization.h"
#include "optimize/precision/integer_products.h"
#include "optimize/precision/move_quantization.h"
#include "optimize/precision/weight_only_products.h"
#include "optimize/precision/widen_narrow_floats.h"
#include "optimize/recognize/recognize_attention.h"
#include "optimize/recognize/recognize_rotary_embedding.h"

namespace camshaft::cpu {

BackendPasses passes(ops::Rounding rounding) {
  BackendPasses passes;
  passes.meaning = {widen_narrow_floats_pass};  // there are no kernels for f16 and bf16
  passes.form = {
      canonicalization(),
      move_quantization_pass,
      integer_products_pass,
      weight_only_products_pass,
      expand_quantization_pass,
      conv_to_scale_pass,
      canonicalization(),
      merge_convolutions_pass,

      to_channels_last_pass,
      simplify_moves_pass,
      fold_constants_pass,
      eliminate_common_subexpressions_pass,
      resize_after_conv_pass,
      nest_concats_pass,

      recognize_rotary_embedding_pass,
      transposes_past_products_pass,
      recognize_attention_pass,
      join_contractions_pass,
      compose_moves_pass,
      compose_transposes_pass,
      narrow_transposes_pass,

      repeat_widening_pass,
      repeat_residual_widening_pass,
      fuse_pass,
      chain_convolutions_pass,
      chain_fills_pass,
      chain_norms_pass,
      chain_rotary_tables_pass,
      narrow_exact_scales_pass,
      batch_invariant_products_pass,
  };
  if (rounding != ops::Rounding::none) passes.precision = {allow_rounding_pass};
  // Without tiles the pass that rounds costs little beside the products.
  if (rounding == ops::Rounding::bf16 && pair_matrix_unit() != MatrixUnit::none)
    passes.precision.emplace_back(store_rounded_pass);
  return passes;
}

}  // namespace camshaft::cpu
