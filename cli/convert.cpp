#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "ask/convert/convert_files.h"
#include "ask/convert/unpack.h"
#include "custom_scripts.h"
#include "dump.h"
#include "face/report/text.h"
#include "verbs.h"
#include "waiting.h"

namespace sonde {
namespace {

// The meaning of the arguments, or the reason why they are wrong.
Result<ConvertSpec> spec_of(const ConvertCommand& arguments) {
  if (arguments.format.empty() && !(arguments.shape.empty() && arguments.scripts.empty())) {
    return Error{ErrorCode::invalid_argument, "--shape and --scripts are for a conversion: they need --format"};
  }
  return convert_spec(arguments);
}

struct Totals {
  std::size_t files = 0, failed = 0, lost = 0;
  std::uint64_t bytes = 0;
};

// Runs all tasks; files that cannot be read are reported at once.
Totals convert_tasks(const std::vector<ConvertTask>& tasks, const ConvertSpec& spec) {
  Totals totals;
  std::vector<Converted> results(Answer::get().is_json() ? tasks.size() : 0);  // for the order of the tasks
  Waiting waiting("converting", tasks.size());
  convert_files(tasks, spec, [&](std::size_t task, Converted&& converted) {
    waiting.advance();
    for (const std::string& note : converted.notes) print_warning(note);
    for (const LostTensor& lost : converted.lost) {
      print_notice("sonde: error: " + printable(lost.message) + "\n");
      Answer::get().note_problem({tasks[task].file, lost.message});
    }
    totals.failed += !converted.lost.empty();
    totals.lost += converted.lost.size();
    totals.files += converted.written.size();
    for (const ConvertedFile& file : converted.written) totals.bytes += file.bytes;
    if (!results.empty()) results[task] = std::move(converted);
  });
  ConvertedFiles answer;
  for (std::size_t i = 0; i < results.size(); ++i) add_converted(tasks[i], results[i], answer);
  Answer::get().add(answer, &ConvertedFiles::files,
                    [&](const auto& take) { std::ranges::for_each(answer.files, take); });
  return totals;
}

// The dump without packs.
int unpack_dump(const ConvertCommand& options) {
  const bool converts = !options.format.empty() || !options.shape.empty() || !options.scripts.empty() ||
                        options.input || options.output || options.type != "npy" || options.paths.size() != 1;
  if (converts) {
    print_error("--unpack copies one dump as it is: it goes with no other option than --out and --json");
    return kBadUsage;
  }
  const Result<Unpacked> done = unpack(options.paths.front(), options.out);
  if (!done) return status_of(done.error());
  for (const std::string& lost : done->lost) {
    print_notice("sonde: error: " + printable(lost) + "\n");
    Answer::get().note_problem({options.paths.front(), lost});
  }
  UnpackedDump answer;
  answer.packs = done->packs;
  answer.files = done->files;
  answer.bytes = done->bytes;
  answer.lost = done->lost.size();
  Answer::get().add(answer);
  if (!done->lost.empty()) Answer::get().set_incomplete();
  if (options.json) return kNothingFound;
  const std::string text =
      fmt::format("{} of {} with {} in {}{}\n", count_text(done->files, "file"), count_text(done->packs, "pack"),
                  bytes_text(done->bytes), printable(options.out),
                  done->lost.empty() ? "" : fmt::format("; {} could not be read", done->lost.size()));
  return print_text(text) ? kNothingFound : kUnreadable;
}

}  // namespace

int convert(const ConvertCommand& options) {
  if (options.unpack) return unpack_dump(options);
  Result<ConvertSpec> spec = spec_of(options);
  std::unique_ptr<CustomConversions> custom;
  if (spec && !options.scripts.empty()) {
    Result<std::unique_ptr<CustomConversions>> scripts = custom_scripts(options.scripts);
    if (!scripts) {
      spec = scripts.error();
    } else {
      custom = std::move(*scripts);
      spec->custom = custom.get();
    }
  }
  if (!spec) return print_error(spec.error(), kBadUsage);
  const Result<std::vector<ConvertTask>> tasks = find_convert_tasks(options.paths, options.out);
  if (!tasks) return print_error(tasks.error(), kUnreadable);
  const Totals totals = convert_tasks(*tasks, *spec);
  if (totals.failed > 0) Answer::get().set_incomplete();
  if (options.json) return kNothingFound;
  const std::string text =
      fmt::format("{} of {} with {} in {}{}\n", count_text(totals.files, "tensor"), count_text(tasks->size(), "file"),
                  bytes_text(totals.bytes), printable(options.out),
                  totals.failed == 0 ? "" : fmt::format("; {} could not be read", count_text(totals.failed, "file")));
  return print_text(text) ? kNothingFound : kUnreadable;
}

}  // namespace sonde
