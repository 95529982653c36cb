#include "optimize/canonicalize/canonicalization.h"

#include "optimize/canonicalize/eliminate_common_subexpressions.h"
#include "optimize/canonicalize/fold_affine_into_contract.h"
#include "optimize/canonicalize/fold_constants.h"
#include "optimize/canonicalize/share_gather_indices.h"
#include "optimize/canonicalize/simplify_algebra.h"
#include "optimize/canonicalize/simplify_moves.h"
#include "optimize/canonicalize/unstack_reductions.h"
#include "optimize/canonicalize/write_boxes.h"
#include "optimize/recognize/recognize_activations.h"
#include "optimize/recognize/recognize_group_norm.h"
#include "optimize/recognize/recognize_layer_norm.h"
#include "optimize/recognize/recognize_masks.h"
#include "optimize/recognize/recognize_softmax.h"

namespace camshaft {

namespace {

// The slowest of the zoo settles in the fourth round; a graph for which passes undo each other's work would never.
constexpr int most_rounds = 8;

}  // namespace

PassStep canonicalization() {
  return {{
              fold_constants_pass,
              simplify_moves_pass,
              simplify_algebra_pass,
              write_boxes_pass,
              unstack_reductions_pass,
              share_gather_indices_pass,
              recognize_group_norm_pass,
              recognize_layer_norm_pass,
              recognize_softmax_pass,
              recognize_masks_pass,
              recognize_activations_pass,
              eliminate_common_subexpressions_pass,
              fold_affine_into_contract_pass,
          },
          most_rounds};
}

}  // namespace camshaft
