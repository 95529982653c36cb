#include "tools/commands.h"

int main(int argc, char** argv) {
  return camshaft::run_command_line(argc, argv);
}
