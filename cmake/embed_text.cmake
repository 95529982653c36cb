# Writes OUTPUT, a header with the text of each of FILES as a constant: folder/name.cuh becomes name_cuh in NAMESPACE.
# With -D BARE=ON lines that are #pragma once or #include, or begin or end a namespace, are left out of what behind each
# file's first line stands: src/backends/cuda/device/numbers.h says why.
set(content "// Made from the files it names. Do not edit.\n#pragma once\n\n#include <string_view>\n\nnamespace ${NAMESPACE} {\n\n")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  string(REPLACE "." "_" name ${name})
  file(READ ${file} text)
  if(BARE)
    string(REGEX REPLACE "\n(#pragma once|#include|namespace|}  // namespace)[^\n]*" "" text "${text}")
  endif()
  string(APPEND content "inline constexpr std::string_view ${name} = R\"cuda(${text})cuda\";\n\n")
endforeach()
string(APPEND content "}  // namespace ${NAMESPACE}\n")
file(WRITE ${OUTPUT} "${content}")
