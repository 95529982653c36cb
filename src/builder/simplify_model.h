// A model brought into canonical form, and written back as ONNX.
#pragma once

#include "builder/rewrite_model.h"

namespace camshaft {

/// Folds constants and shape arithmetic, removes what changes nothing, and writes the rest, see rewrite_model(). Judged
/// by the model as it was.
void simplify_model(const std::filesystem::path& model, const std::filesystem::path& output,
                    const BuildOptions& options, bool external_data, RewriteReport& report);

}  // namespace camshaft
