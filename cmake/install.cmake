# The installed files: the static libraries, the public headers, the program actor-node, and a package
# configuration, so that find_package(troupe) gives troupe::troupe and troupe::chaos elsewhere, and the programs of apps/
# as examples. Our compiler flags are not exported.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(troupe_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/troupe)

set_target_properties(troupe_chaos PROPERTIES EXPORT_NAME chaos)
install(TARGETS troupe troupe_chaos EXPORT troupe-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/troupe DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.hpp")
install(EXPORT troupe-targets NAMESPACE troupe:: DESTINATION ${troupe_package_dir})
install(TARGETS actor-node troupe_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

configure_package_config_file(cmake/troupe-config.cmake.in "${CMAKE_CURRENT_BINARY_DIR}/troupe-config.cmake"
  INSTALL_DESTINATION ${troupe_package_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/troupe-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/troupe-config.cmake" "${CMAKE_CURRENT_BINARY_DIR}/troupe-config-version.cmake"
  cmake/FindCAF.cmake cmake/Finddnnl.cmake cmake/Findutf8proc.cmake cmake/plugins.cmake DESTINATION ${troupe_package_dir})

# The examples lie as in the tree, so that "apps/flags.hpp" is found there, and the pages' links, too.
set(troupe_examples_dir ${CMAKE_INSTALL_DATADIR}/troupe/examples)
configure_file(cmake/examples/CMakeLists.txt.in "${CMAKE_CURRENT_BINARY_DIR}/examples/CMakeLists.txt" @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/examples/CMakeLists.txt" cmake/examples/README.md DESTINATION ${troupe_examples_dir})
install(FILES docs/applications.md DESTINATION ${troupe_examples_dir}/docs)
install(FILES data/digits.csv.gz DESTINATION ${troupe_examples_dir}/data)
file(GLOB headers apps/*.hpp)
install(FILES apps/README.md apps/console_log.cpp apps/flags.cpp ${headers} DESTINATION ${troupe_examples_dir}/apps)
install(DIRECTORY apps/program apps/curves DESTINATION ${troupe_examples_dir}/apps)
foreach(name ${applications})
  install(FILES apps/${name}.cpp DESTINATION ${troupe_examples_dir}/apps)
  if(IS_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}/apps/${name}")
    install(DIRECTORY apps/${name} DESTINATION ${troupe_examples_dir}/apps)
  endif()
endforeach()
