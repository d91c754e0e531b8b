# sonde_linked_files(TARGET FILES...): the bytes of files as sonde::server::linked_files() (src/face/server/linked_files.h). Each
# is `NAME=PATH`. The assembler reads them when the target is built.
function(sonde_linked_files target)
  set(symbols "")
  set(rows "")
  set(number 0)
  foreach(entry IN LISTS ARGN)
    string(REGEX MATCH "^([^=]+)=(.+)$" ignored "${entry}")
    set(name "${CMAKE_MATCH_1}")
    set(path "${CMAKE_MATCH_2}")
    set(symbol "sonde_linked_${number}")
    string(APPEND symbols "asm(R\"(.section .rodata\n${symbol}_begin: .incbin \"${path}\"\n${symbol}_end: .byte 0\n"
      ".globl ${symbol}_begin\n.globl ${symbol}_end\n.hidden ${symbol}_begin\n.hidden ${symbol}_end\n.previous)\");\n"
      "extern \"C\" const char ${symbol}_begin[], ${symbol}_end[];\n")
    string(APPEND rows "      {\"${name}\", {${symbol}_begin, static_cast<std::size_t>(${symbol}_end - ${symbol}_begin)}},\n")
    list(APPEND paths "${path}")
    math(EXPR number "${number} + 1")
  endforeach()
  set(source "${CMAKE_CURRENT_BINARY_DIR}/linked_files.cpp")
  file(CONFIGURE OUTPUT linked_files.cpp @ONLY CONTENT [[
// Made by CMake (cmake/linked_files.cmake).
#include "face/server/linked_files.h"

#include <cstddef>

@symbols@
namespace sonde::server {

std::span<const LinkedFile> linked_files() {
  static const LinkedFile files[] = {
@rows@  };
  return files;
}

}  // namespace sonde::server
]])
  set_source_files_properties("${source}" PROPERTIES OBJECT_DEPENDS "${paths}" SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
  target_sources(${target} PRIVATE "${source}")
endfunction()
