#include "native_program.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "answer.h"
#include "child.h"
#include "ground/base/text.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

// The file that the shell would run; empty if there is none.
fs::path file_of(const std::string& program) {
  if (program.find('/') != std::string::npos) return program;
  const char* path = std::getenv("PATH");
  for (const std::string_view directory : split(path != nullptr ? path : "", ':')) {
    const fs::path file = fs::path(directory) / program;
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

bool is_elf(const fs::path& file) {
  std::array<char, 4> head{};
  std::ifstream stream(file, std::ios::binary);
  return stream.read(head.data(), head.size()) && std::string_view(head.data(), head.size()) == "\177ELF";
}

// The directory of the libtorch that the program is linked with, above lib/; empty if it needs no library of ours.
fs::path libtorch_of(const fs::path& program) {
  const Result<std::string> listed = ask_child({"ldd", program.string()}, {});
  if (!listed) return {};
  fs::path found;
  for (const std::string_view line : split(*listed, '\n')) {
    if (line.find("libsonde_torch") != std::string::npos) return {};
    constexpr std::string_view kArrow = "libtorch_cpu.so => ";
    const std::size_t at = line.find(kArrow);
    if (at == std::string::npos) continue;
    const std::size_t begin = at + kArrow.size();
    found = fs::path(line.substr(begin, line.rfind(" (") - begin)).lexically_normal().parent_path().parent_path();
  }
  return found;
}

}  // namespace

std::optional<std::string> preload_for(const std::vector<std::string>& command, const fs::path& scratch) {
  const fs::path program = file_of(command[0]);
  if (program.empty() || !is_elf(program)) return std::nullopt;
  const fs::path libtorch = libtorch_of(program);
  if (libtorch.empty()) return std::nullopt;
  ChildSetting setting = python_setting();
  setting.output = scratch / "library";
  const Result<ChildEnd> end =
      run_child(python_command(default_python(), kAdapterProgram, {"build", "--libtorch", libtorch.string()}), setting);
  std::string library;
  std::ifstream answer(setting.output);
  if (!end || end->exit_code != 0 || !std::getline(answer, library)) {
    if (!end) print_error(end.error().message);
    print_warning("'" + command[0] + "' runs without being recorded: there is no library for its libtorch in '" +
                  libtorch.string() + "'");
    return std::nullopt;
  }
  const char* others = std::getenv("LD_PRELOAD");
  return others != nullptr && *others != '\0' ? library + ":" + others : library;
}

}  // namespace sonde
