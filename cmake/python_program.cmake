# sonde_python_program(TARGET NAME CONSTANT): the text of python/sonde/programs/NAME.py as `const char* const
# sonde::CONSTANT`, for interpreters without Sonde.
function(sonde_python_program target name constant)
  set(file "${PROJECT_SOURCE_DIR}/python/sonde/programs/${name}.py")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  file(READ "${file}" text)
  file(CONFIGURE OUTPUT "${name}.cpp" @ONLY CONTENT [[
// Made by CMake from python/sonde/programs/@name@.py.
namespace sonde {
extern const char* const @constant@;
const char* const @constant@ = R"PY(@text@)PY";
}  // namespace sonde
]])
  target_sources(${target} PRIVATE "${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp")
endfunction()
