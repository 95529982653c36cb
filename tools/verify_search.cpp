#include "tools/verify_search.h"

#include <fmt/format.h>

#include <filesystem>

#include "camshaft/reference.hpp"
#include "tools/atomic_file.h"
#include "tools/npz.h"
#include "tools/temporary_folder.h"

namespace camshaft::tools {

namespace {

void write_file(const std::string& path, std::span<const std::byte> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

/// Parts of a model through the builder, which reads files.
class PartJudge {
 public:
  PartJudge(Judge who, BuildOptions options) : who_(who), options_(std::move(options)) {
    options_.set_progress({}).clear_profiles();
  }

  bool goes_wrong(std::span<const std::byte> model, const NamedTensors& inputs) const {
    const std::string file = folder_.path() + "/part.onnx";
    write_file(file, model);
    BuildOptions options = options_;
    options.set_inputs(inputs);
    try {
      return !judge(file, who_, options, {inputs}).passed();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::cancelled || error.code() == ErrorCode::io) throw;
      return error.code() == ErrorCode::internal;
    }
  }

 private:
  Judge who_;
  BuildOptions options_;
  TemporaryFolder folder_;
};

}  // namespace

std::string bisect_passes(const std::string& model, Judge who, const BuildOptions& options, const JudgedInputs& given) {
  const auto tell = [&](const std::string& stage) {
    if (given.progress != nullptr) given.progress->update(stage, 0);
  };
  const auto judged_after = [&](int64_t count) {
    BuildOptions limited = options;
    limited.set("stop-after-pass", count).set_progress({});
    return judge(model, who, limited, {given.inputs});
  };
  tell("building with all passes");
  const Verdict whole = judged_after(-1);
  if (whole.passed()) return "the results do not differ: there is nothing to bisect";
  const std::vector<std::string>& passes = whole.passes;
  const auto passed_after = [&](size_t count) {
    tell(fmt::format("building with {} of {} passes", count, passes.size()));
    return judged_after(static_cast<int64_t>(count)).passed();
  };
  if (!passed_after(0)) return "the results differ without any optimiser pass: an operator or a kernel is to blame";
  size_t good = 0, bad = passes.size();
  while (bad - good > 1) {
    const size_t middle = (good + bad) / 2;
    (passed_after(middle) ? good : bad) = middle;
  }
  return fmt::format("the results differ from pass {} on, {}, and not with the {} before it (--stop-after-pass {})",
                     bad, passes[bad - 1], bad - 1, bad - 1);
}

std::string reduced_inputs(const std::string& output) {
  return std::filesystem::path(output).replace_extension(".npz").string();
}

Reduction reduce(const std::string& model, Judge who, const BuildOptions& options, const std::string& output) {
  const PartJudge parts(who, options);
  const ReducedModel small = camshaft::reduce(
      model, options,
      [&](std::span<const std::byte> part, const NamedTensors& inputs) { return parts.goes_wrong(part, inputs); });
  Reduction written{small.nodes, small.nodes_before, output, reduced_inputs(output)};
  write_file(written.model, small.model);
  write_npz(written.inputs, small.inputs);
  return written;
}

}  // namespace camshaft::tools
