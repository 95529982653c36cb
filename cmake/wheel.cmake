# What the Python wheel has: the engine, once, as a library of the package, and what uses it through the C interface: the
# module, the command and the server. With an engine in each of them, as elsewhere, the wheel would have 33 MB, so it has
# half of that. scripts/wheel.sh builds the target camshaft_wheel_files.
include_guard()

set(wheel_folder ${PROJECT_BINARY_DIR}/wheel/camshaft)
add_custom_target(camshaft_wheel_files)

# The library has a name of its own: a program that has loaded another libcamshaft.so.1 would else be given that one.
add_library(camshaft_wheel_engine SHARED EXCLUDE_FROM_ALL $<TARGET_OBJECTS:camshaft_api>
                                                         $<TARGET_OBJECTS:camshaft_ort_provider>)
target_link_libraries(camshaft_wheel_engine PRIVATE camshaft_builder camshaft_plugin)
target_link_options(camshaft_wheel_engine PRIVATE -Wl,--no-undefined -Wl,-z,nodelete)
set_target_properties(camshaft_wheel_engine PROPERTIES PREFIX "" OUTPUT_NAME _camshaft_engine LINKER_LANGUAGE CXX
                                                       LIBRARY_OUTPUT_DIRECTORY ${wheel_folder})
camshaft_portable(camshaft_wheel_engine EXPORTS ${PROJECT_BINARY_DIR}/camshaft.map)

# camshaft_of_wheel(TARGET FOLDER ARCHIVES targets... [LINK libraries...]): a program or module in a folder of the package.
# Of targets that link the engine as an archive only their own archive is taken, and fmt and Highway's run-time part,
# which they find in the engine elsewhere.
add_library(camshaft_wheel_fmt OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/src/base/fmt_library.cpp)
function(camshaft_of_wheel target folder)
  cmake_parse_arguments(WHEEL "" "" "ARCHIVES;LINK" ${ARGN})
  foreach(archive IN LISTS WHEEL_ARCHIVES)
    target_link_libraries(${target} PRIVATE $<TARGET_FILE:${archive}>)
    add_dependencies(${target} ${archive})
  endforeach()
  target_link_libraries(${target} PRIVATE ${WHEEL_LINK} camshaft_wheel_engine Threads::Threads ${CMAKE_DL_LIBS})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  set(rpath $ORIGIN)
  if(NOT folder STREQUAL .)
    set(rpath $ORIGIN/..)
  endif()
  set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH ${rpath}
                                             LIBRARY_OUTPUT_DIRECTORY ${wheel_folder}/${folder}
                                             RUNTIME_OUTPUT_DIRECTORY ${wheel_folder}/${folder})
  add_dependencies(camshaft_wheel_files ${target})
  if(SKBUILD)
    install(TARGETS ${target} DESTINATION camshaft/${folder} COMPONENT python)
  endif()
endfunction()

set(version_script ${wheel_folder}/module.map)
file(CONFIGURE OUTPUT ${version_script} CONTENT "{\n  global:\n    PyInit__native;\n  local:\n    *;\n};\n")
add_library(camshaft_wheel_highway OBJECT EXCLUDE_FROM_ALL
            ${PROJECT_SOURCE_DIR}/src/backends/cpu/kernels/highway_runtime.cpp)
target_include_directories(camshaft_wheel_highway PRIVATE ${PROJECT_SOURCE_DIR}/src)
add_library(camshaft_wheel_module MODULE $<TARGET_OBJECTS:camshaft_python_objects> $<TARGET_OBJECTS:camshaft_wheel_fmt>
                                         $<TARGET_OBJECTS:camshaft_wheel_highway>)
set_target_properties(camshaft_wheel_module PROPERTIES PREFIX "" OUTPUT_NAME _native SUFFIX .abi3.so LINKER_LANGUAGE CXX)
camshaft_portable(camshaft_wheel_module EXPORTS ${version_script})
camshaft_of_wheel(camshaft_wheel_module . ARCHIVES camshaft_llm LINK xxhash)

add_executable(camshaft_wheel_command ${PROJECT_SOURCE_DIR}/tools/main.cpp $<TARGET_OBJECTS:camshaft_wheel_fmt>)
set_target_properties(camshaft_wheel_command PROPERTIES OUTPUT_NAME camshaft)
camshaft_portable(camshaft_wheel_command)
camshaft_of_wheel(camshaft_wheel_command bin ARCHIVES camshaft_tools
                  LINK CLI11::CLI11 nlohmann_json::nlohmann_json ${MINIZIP_ARCHIVE} pictures)

set(names camshaft camshaft-trtexec)
if(CAMSHAFT_BUILD_SERVER)
  add_executable(camshaft_wheel_server ${PROJECT_SOURCE_DIR}/server/main.cpp)
  set_target_properties(camshaft_wheel_server PROPERTIES OUTPUT_NAME camshaft-server)
  camshaft_portable(camshaft_wheel_server)
  camshaft_of_wheel(camshaft_wheel_server bin
                    ARCHIVES camshaft_server_top camshaft_server_options camshaft_server_grpc camshaft_server_http
                             camshaft_server_core camshaft_server_messages
                    LINK server_libraries xxhash CLI11::CLI11 nlohmann_json::nlohmann_json)
  target_include_directories(camshaft_wheel_server SYSTEM PRIVATE ${PROJECT_BINARY_DIR}/generated/server)
  list(APPEND names camshaft-server)
endif()

if(SKBUILD)
  install(TARGETS camshaft_wheel_engine LIBRARY DESTINATION camshaft COMPONENT python)
  install(TARGETS camshaft_cudart LIBRARY DESTINATION camshaft/tensorrt/lib COMPONENT python)
  foreach(name IN LISTS names)
    install(PROGRAMS ${PROJECT_SOURCE_DIR}/python/scripts/camshaft DESTINATION ${SKBUILD_SCRIPTS_DIR} RENAME ${name}
            COMPONENT python)
  endforeach()
endif()
add_dependencies(camshaft_wheel_files camshaft_cudart)
