// A request that is searched by beams, while it is decoded.
#pragma once

#include <vector>

#include "llm/beam_search.h"
#include "llm/sequence.h"

namespace camshaft::llm {

/// Beams go on together, when all of them have their candidates: those that have wait, without a token of a step.
struct BeamGroup {
  explicit BeamGroup(BeamSearch made) : search(std::move(made)) {}

  BeamSearch search;
  std::vector<Sequence*> beams;  ///< the best one first; those that have no slot are computed when the first one was
  std::vector<Sequence*> idle;   ///< sequences that no beam needs
  bool is_stepped = false;       ///< a beam has tokens in this step

  // Of advancing.
  std::vector<BeamSearch::Row> rows;
  std::vector<Sequence*> next;
  std::vector<Sequence*> free;
};

}  // namespace camshaft::llm
