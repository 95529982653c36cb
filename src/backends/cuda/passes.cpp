#include "backends/cuda/passes.h"

#include "backends/cuda/passes/byte_products.h"
#include "backends/cuda/passes/chain_prologues.h"
#include "backends/cuda/passes/chain_squeeze_excite.h"
#include "backends/cuda/passes/chain_updates.h"
#include "backends/cuda/passes/defer_layer_norms.h"
#include "backends/cuda/passes/float8_products.h"
#include "backends/cuda/passes/join_transposes.h"
#include "backends/cuda/passes/narrow_step_scales.h"
#include "backends/cuda/passes/reshape_behind_product.h"
#include "backends/cuda/passes/steps_behind_attention.h"
#include "backends/cuda/passes/steps_behind_norms.h"
#include "backends/cuda/passes/steps_behind_products.h"
#include "backends/cuda/passes/update_caches.h"
#include "backends/cuda/passes/widen_images.h"
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
#include "optimize/precision/keep_activations.h"
#include "optimize/precision/lower_precision.h"
#include "optimize/precision/move_quantization.h"
#include "optimize/precision/weight_only_products.h"
#include "optimize/precision/widen_narrow_floats.h"
#include "optimize/precision/widen_quantized_halves.h"
#include "optimize/recognize/recognize_attention.h"
#include "optimize/recognize/recognize_rotary_embedding.h"

namespace camshaft::cuda {

BackendPasses passes(DType storage, ops::Rounding rounding, bool has_byte_products, bool has_float8_products) {
  BackendPasses passes;
  passes.meaning = {keep_activations_pass};
  // Where tensors are stored in halves anyhow, a model in halves takes the same way as one in f32: attention, joined
  // products and deferred norms are found in f32 alone.
  if (storage != DType::f32)
    passes.meaning.emplace_back(widen_narrow_floats_pass);
  else if (has_byte_products)
    passes.meaning.emplace_back(widen_quantized_halves_pass);
  passes.form = {canonicalization()};
  if (has_byte_products) passes.form.insert(passes.form.end(), {move_quantization_pass, byte_products_pass});
  if (has_float8_products) passes.form.insert(passes.form.end(), {float8_products_pass});
  const PassList others = {
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
      update_caches_pass,
      join_contractions_pass,
      compose_moves_pass,
      compose_transposes_pass,
      narrow_transposes_pass,

      repeat_residual_widening_pass,
      fuse_pass,
      steps_behind_products_pass,
  };
  passes.form.insert(passes.form.end(), others.begin(), others.end());
  if (storage != DType::f32)
    passes.precision = {
        lower_precision_pass, reshape_behind_product_pass, defer_layer_norms_pass,
        join_transposes_pass, widen_images_pass,
    };
  passes.precision.emplace_back(narrow_step_scales_pass);
  if (has_byte_products) {
    passes.precision.emplace_back(steps_behind_norms_pass);
    passes.precision.emplace_back(steps_behind_attention_pass);
  }
  if (rounding != ops::Rounding::none) passes.precision.emplace_back(allow_rounding_pass);
  passes.precision.emplace_back(chain_prologues_pass);
  passes.precision.emplace_back(chain_updates_pass);
  passes.precision.emplace_back(chain_squeeze_excite_pass);
  return passes;
}

}  // namespace camshaft::cuda
