// Children that are forked by a process that uses a GPU.
#pragma once

namespace camshaft::cuda {

/// Says that this process uses a GPU: children that it forks from now on cannot.
void note_use_of_gpu();
/// Whether this process was forked by one that used a GPU: CUDA's calls fail here, or never return.
bool is_forked_child();
/// Throws Error(unsupported), with the way out, in such a child.
void refuse_in_forked_child();

}  // namespace camshaft::cuda
