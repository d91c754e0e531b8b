#include "index.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "dump.h"
#include "face/report/json.h"
#include "face/report/text.h"
#include "read/index/index.h"

namespace sonde {
namespace {

struct IndexOptions {
  std::string dump, out;
  bool json = false;
};

// One line on a terminal, which changes with the work.
class ShownWork {
 public:
  void show(std::string_view name, std::uint64_t done, std::uint64_t all) {
    if (name != name_) {
      end();
      name_ = name;
      line_.emplace(std::string(name), all);
    }
    for (; done_ < done; ++done_) line_->advance();
  }
  void end() {
    line_.reset();
    name_.clear();
    done_ = 0;
  }

 private:
  std::string name_;
  std::optional<Progress> line_;
  std::uint64_t done_ = 0;
};

int index(const IndexOptions& options) {
  ShownWork work;
  const Result<IndexReport> built =
      build_index(options.dump, options.out,
                  [&](std::string_view name, std::uint64_t done, std::uint64_t all) { work.show(name, done, all); });
  work.end();
  if (!built) {
    print_error(built.error().message);
    return built.error().code == ErrorCode::invalid_argument ? kBadUsage : kUnreadable;
  }
  if (options.json) {
    Answer::get().add({{"file", built->file.string()},
                       {"files", built->files},
                       {"tensors", built->tensors},
                       {"bytes", built->bytes},
                       {"read_seconds", built->read_seconds},
                       {"write_seconds", built->write_seconds}});
    return kNothingFound;
  }
  const std::string text =
      fmt::format("{}\n{} and {} of {} in {}; read in {:.2f} s, written in {:.2f} s\n", printable(built->file.string()),
                  count_text(built->files, "file"), count_text(built->tensors, "tensor"), printable(options.dump),
                  bytes_text(built->bytes), built->read_seconds, built->write_seconds);
  return print_text(text) ? kNothingFound : kUnreadable;
}

}  // namespace

void add_index(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<IndexOptions>();
  CLI::App* verb =
      app.add_subcommand("index", "Build an index of a large dump, so that it opens at once and SQL can query it.");
  verb->add_option("DUMP", options->dump, "directory of a dump, or any directory inside one")
      ->type_name("")
      ->required();
  verb->add_option("--out", options->out,
                   "the file to write, for SQL queries (default: one in $XDG_CACHE_HOME/sonde/index\n"
                   "or ~/.cache/sonde/index, which the other verbs use while the dump does not change)")
      ->type_name("FILE");
  add_json_options(*verb, options->json);
  verb->footer(
      "The verbs save an index automatically if a dump took long to open. Tables and examples: docs/catalog.md.\n"
      "Exit status: 0 written, 2 bad usage, 3 dump unreadable or still being written, or the file could not be "
      "written.\n"
      "Example: sonde index run7 --out run7.sqlite && sqlite3 -readonly run7.sqlite 'SELECT * FROM all_tensors LIMIT "
      "3'");
  verb->callback([options, &exit_status] { exit_status = index(*options); });
}

}  // namespace sonde
