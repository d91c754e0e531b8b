# protozero, header-only: the imported target `protozero`. Debian's package has neither a CMake nor a pkg-config file.
find_path(Protozero_INCLUDE_DIR protozero/version.hpp)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Protozero REQUIRED_VARS Protozero_INCLUDE_DIR)
if(Protozero_FOUND AND NOT TARGET protozero)
  add_library(protozero INTERFACE IMPORTED)
  target_include_directories(protozero SYSTEM INTERFACE "${Protozero_INCLUDE_DIR}")
endif()
mark_as_advanced(Protozero_INCLUDE_DIR)
