# The library `camshaft`: one static archive of all layers and of the third-party archives behind them, so that a program
# which links it needs nothing else but threads.
include(CMakePackageConfigHelpers)

set(layers base ir reference onnx optimize compile cpu cuda engine runtime builder)
set(archive ${PROJECT_BINARY_DIR}/libcamshaft.a)
set(members "")
set(layer_targets "")
foreach(layer ${layers})
  get_target_property(type camshaft_${layer} TYPE)
  if(type STREQUAL STATIC_LIBRARY)
    list(APPEND members $<TARGET_FILE:camshaft_${layer}>)
    list(APPEND layer_targets camshaft_${layer})
  endif()
endforeach()
list(APPEND members ${XXHASH_ARCHIVE} ${PNG_ARCHIVE} ${JPEG_ARCHIVE} ${WEBP_ARCHIVE} ${ZLIB_ARCHIVE})
string(REPLACE ";" "$<SEMICOLON>" member_list "${members}")
add_custom_command(
  OUTPUT ${archive}
  COMMAND ${CMAKE_COMMAND} -D AR=${CMAKE_AR} -D ARCHIVE=${archive} -D "MEMBERS=${member_list}"
          -P ${PROJECT_SOURCE_DIR}/cmake/merge_archives.cmake
  DEPENDS ${layer_targets} ${PROJECT_SOURCE_DIR}/cmake/merge_archives.cmake
  COMMENT "Merging ${archive}"
  VERBATIM)
add_custom_target(camshaft_archive ALL DEPENDS ${archive})

# What examples in this tree link: the same name as in an install tree.
add_library(camshaft INTERFACE)
add_library(camshaft::camshaft ALIAS camshaft)
target_link_libraries(camshaft INTERFACE camshaft_builder)

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/camshaft)
configure_package_config_file(cmake/camshaftConfig.cmake.in ${PROJECT_BINARY_DIR}/camshaftConfig.cmake
                              INSTALL_DESTINATION ${package_folder} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/camshaftConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${archive} DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
install(DIRECTORY include/camshaft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library FILES_MATCHING PATTERN "*.h")
install(FILES ${PROJECT_BINARY_DIR}/camshaftConfig.cmake ${PROJECT_BINARY_DIR}/camshaftConfigVersion.cmake
        DESTINATION ${package_folder} COMPONENT library)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT library)
