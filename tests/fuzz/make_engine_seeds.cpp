// make_engine_seeds FOLDER MODEL...: builds each model without checking it and saves the engines that are small enough
// to fuzz as FOLDER/<name of the model>.engine. Models that do not build are left out.
#include <cstdio>
#include <exception>
#include <filesystem>

#include "builder/builder.h"
#include "fuzz/limits.h"

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  constexpr uintmax_t largest = 20 << 10;
  camshaft::fuzz::set_limits();
  int made = 0;
  for (int i = 2; i < argc; ++i) {
    const fs::path engine = fs::path(argv[1]) / (fs::path(argv[i]).stem().string() + ".engine");
    try {
      camshaft::BuildOptions options;
      options.threads = 1;
      options.verify = false;
      options.tuning = camshaft::Tuning::heuristic;  // measured ones would be others each time
      camshaft::Builder(options).build(argv[i]).save(engine.string());
      if (fs::file_size(engine) > largest)
        fs::remove(engine);
      else
        ++made;
    } catch (const std::exception&) {
      continue;
    }
  }
  std::printf("%d engines\n", made);
  return made > 0 ? 0 : 1;
}
