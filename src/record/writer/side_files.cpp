#include "record/writer/side_files.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <system_error>

#include "dump/run_files/private_text.h"
#include "ground/base/json.h"
#include "ground/files/files.h"
#include "ground/files/safe_path.h"

namespace sonde {
namespace {

constexpr std::uintmax_t kLongestRankTable = 16 << 20;

// Ignores a rank table that cannot be read: the dump does not need it.
std::string rank_table() {
  const char* path = std::getenv("RANK_TABLE_FILE");
  std::error_code error;
  if (path == nullptr || !std::filesystem::is_regular_file(path, error)) return {};
  if (std::filesystem::file_size(path, error) > kLongestRankTable || error) return {};
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// `first_stays`: several processes, or several runs, share the file.
Status write_side_file(int aside, const Layout& layout, const std::filesystem::path& path, const std::string& text,
                       bool first_stays) {
  const Result<Fd> directory = open_in_dump(layout.root(), path.parent_path(), Missing::make);
  if (!directory) return directory.error();
  if (!first_stays) return write_whole_file(aside, directory->get(), path, text);
  if (Status free = check_replaceable(directory->get(), path); !free) return free;
  AsideFile file(aside);
  int error_number = file.create();
  if (error_number == 0) error_number = file.write(text, nullptr, 0);
  if (error_number == 0) error_number = file.commit(directory->get(), path.filename().c_str(), false);
  if (error_number != 0 && error_number != EEXIST) return io_error("write", path, error_number);
  return {};
}

std::string_view mode_word(Sides sides) {
  if (sides == Sides::both) return "all";
  return sides == Sides::inputs ? "input" : "output";
}

}  // namespace

std::string acl_config_json(const Plan& plan) {
  Json dump = {{"dump_list", Json::array()},
               {"dump_mode", mode_word(plan.input_output)},
               {"dump_op_switch", "on"},
               {"dump_path", plan.sonde.is_private ? std::string() : plan.path.string()}};
  if (plan.dump_mode == DumpMode::kernels && !plan.kernels.empty()) {
    dump["dump_list"].push_back({{"layer", plan.kernels}});
  }
  if (plan.exception_only()) dump["dump_scene"] = "lite_exception";
  return text_of_json({{"dump", dump}});
}

Status write_side_files(const Plan& plan, const Layout& layout, const std::filesystem::path& aside) {
  Result<Fd> directory = open_in_dump(layout.root(), aside, Missing::leave);
  if (!directory) return directory.error();
  const std::filesystem::path old_copy = layout.old_config_copy();
  if (const std::string text = config_copy(plan); !old_copy.empty() && !text.empty()) {
    Status status = write_side_file(directory->get(), layout, old_copy, text, true);
    if (!status) return status;
  }
  const std::filesystem::path table_copy = layout.rank_table_copy();
  const bool is_wanted = !table_copy.empty() && !plan.sonde.is_private;
  if (const std::string table = is_wanted ? rank_table() : ""; !table.empty()) {
    if (Status status = write_side_file(directory->get(), layout, table_copy, table, false); !status) return status;
  }
  const std::filesystem::path acl = layout.acl_config();
  return acl.empty() ? Status() : write_side_file(directory->get(), layout, acl, acl_config_json(plan), false);
}

}  // namespace sonde
