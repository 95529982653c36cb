#include "tools/commands.h"

int main(int argc, char** argv) {
  return camshaft::tools::run_command_line(argc, argv);
}
