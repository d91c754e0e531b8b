# Toolchain of scripts/arm: Debian's cross compiler, and the libraries that scripts/arm unpacked into SONDE_ARM_LIBRARIES.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES SONDE_ARM_LIBRARIES)

set(CMAKE_FIND_ROOT_PATH "${SONDE_ARM_LIBRARIES}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} "${SONDE_ARM_LIBRARIES}/usr/lib/aarch64-linux-gnu/pkgconfig:${SONDE_ARM_LIBRARIES}/usr/share/pkgconfig")
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${SONDE_ARM_LIBRARIES}")
set(CMAKE_CXX_STANDARD_INCLUDE_DIRECTORIES "${SONDE_ARM_LIBRARIES}/usr/include" "${SONDE_ARM_LIBRARIES}/usr/include/aarch64-linux-gnu")
# The libraries that a library needs lie beside it.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${SONDE_ARM_LIBRARIES}/usr/lib/aarch64-linux-gnu")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "${CMAKE_EXE_LINKER_FLAGS_INIT}")

set(CMAKE_CROSSCOMPILING_EMULATOR
    qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=/lib:${SONDE_ARM_LIBRARIES}/usr/lib/aarch64-linux-gnu)
