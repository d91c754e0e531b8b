# Files for C and C++ programs: `cmake --install build --component development --prefix /usr/local`. Then
# find_package(sonde) gives sonde::sonde, and pkg-config knows sonde. The Python package contains the same for CMake:
# its prefix is sonde.cmake_prefix_path.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# sonde_cmake_files(DIRECTORY COMPONENT LIBRARY_DIR INCLUDE_DIR ADAPTER_DIR): the package for find_package, installed in
# DIRECTORY; the other directories are relative to the same prefix.
function(sonde_cmake_files directory component SONDE_LIBRARY_DIR SONDE_INCLUDE_DIR SONDE_ADAPTER_DIR)
  set(made "${PROJECT_BINARY_DIR}/cmake-${component}")
  configure_package_config_file(cmake/sonde-config.cmake.in "${made}/sonde-config.cmake"
    INSTALL_DESTINATION ${directory} PATH_VARS SONDE_LIBRARY_DIR SONDE_INCLUDE_DIR SONDE_ADAPTER_DIR)
  write_basic_package_version_file("${made}/sonde-config-version.cmake" COMPATIBILITY SameMinorVersion)
  install(FILES "${made}/sonde-config.cmake" "${made}/sonde-config-version.cmake" cmake/sonde-torch.cmake
    DESTINATION ${directory} COMPONENT ${component})
endfunction()

# sonde_adapter_files(DIRECTORY COMPONENT): the sources of the adapters for PyTorch, which are built where they are used.
function(sonde_adapter_files directory component)
  foreach(adapter IN ITEMS torch libtorch)
    install(DIRECTORY adapters/${adapter} DESTINATION ${directory} COMPONENT ${component}
      FILES_MATCHING PATTERN "*.cpp" PATTERN "*.h")
  endforeach()
endfunction()

set(SONDE_SHARE_DIR ${CMAKE_INSTALL_DATADIR}/sonde)
install(TARGETS sonde LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(DIRECTORY include/sonde "${SONDE_CONTRACT}/sonde" DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development FILES_MATCHING PATTERN "*.h")
sonde_adapter_files(${SONDE_SHARE_DIR}/adapters development)
sonde_cmake_files(${CMAKE_INSTALL_LIBDIR}/cmake/sonde development ${CMAKE_INSTALL_LIBDIR} ${CMAKE_INSTALL_INCLUDEDIR}
  ${SONDE_SHARE_DIR}/adapters)
file(RELATIVE_PATH SONDE_PREFIX_FROM_PC "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file(cmake/sonde.pc.in ${PROJECT_BINARY_DIR}/sonde.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/sonde.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
