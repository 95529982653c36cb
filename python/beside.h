// Waits for other ranks, which Ctrl-C ends.
#pragma once

#include <functional>

namespace camshaft::python {

/// Runs `work` on a thread of its own, while the calling one lets go of Python's lock and looks for signals ten times a
/// second. Once one has raised, `interrupt` is called, if there is one, and the work waited for; else the thread is
/// left to itself, with what the work holds. Throws PythonError then, else what the work threw.
void run_beside(std::function<void()> work, const std::function<void()>& interrupt);

}  // namespace camshaft::python
