set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

if(CAMSHAFT_NATIVE)
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -DNDEBUG")
else()
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
endif()

add_compile_options(-Wall -Wextra -Werror)
# -ffp-contract=off: a fused multiply-add where the source has none would make results depend on the compiler's mood.
add_compile_options(-ffp-contract=off)

if(CAMSHAFT_SANITIZE)
  add_compile_options(-fsanitize=${CAMSHAFT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  add_link_options(-fsanitize=${CAMSHAFT_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)  # GCC 13 warns of what its own checks make of its library
    add_compile_options(-Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overread)
  endif()
endif()
