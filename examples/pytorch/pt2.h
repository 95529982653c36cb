// Engines in .pt2 files, which camshaft.torch.save() writes: read without PyTorch and without Python.
#pragma once

#include <camshaft/camshaft.hpp>
#include <cstdint>
#include <string>
#include <vector>

/// An argument or a result of the program, by its name in the engine.
struct Pt2Value {
  std::string name;
  /// The program's axes in the order in which they lie in memory, which is the engine's; empty: as they are.
  std::vector<int64_t> layout;
};

/// A program of torch.export that Camshaft compiled whole.
struct Pt2Program {
  camshaft::Engine engine;
  std::vector<Pt2Value> inputs, outputs;  ///< in the program's order
};

/// Throws std::runtime_error for a file that cannot be read, and for a program of which parts stayed with PyTorch:
/// those need it. Bytes of the engine itself are checked as those of any engine file are: camshaft::Error.
Pt2Program load_pt2(const std::string& path);
