#include "read/index/index.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

#include "dump.h"
#include "face/report/text.h"
#include "verbs.h"

namespace sonde {
namespace {

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

}  // namespace

int index(const IndexCommand& options) {
  ShownWork work;
  const Result<IndexReport> built =
      build_index(options.dump, options.out,
                  [&](std::string_view name, std::uint64_t done, std::uint64_t all) { work.show(name, done, all); });
  work.end();
  if (!built) return status_of(built.error());
  if (options.json) {
    Answer::get().add(*built);
    return kNothingFound;
  }
  const std::string text =
      fmt::format("{}\n{} and {} of {} in {}; read in {:.2f} s, written in {:.2f} s\n", printable(built->file.string()),
                  count_text(built->files, "file"), count_text(built->tensors, "tensor"), printable(options.dump),
                  bytes_text(built->bytes), built->read_seconds, built->write_seconds);
  return print_text(text) ? kNothingFound : kUnreadable;
}

}  // namespace sonde
