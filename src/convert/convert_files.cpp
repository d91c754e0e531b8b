#include "convert/convert_files.h"

#include <mutex>
#include <system_error>

#include "base/parallel.h"

namespace sonde {
namespace {

// A file that would keep one thread busy when the others have nothing left to do.
constexpr std::uintmax_t kLargeBytes = 64 << 20;

}  // namespace

void convert_files(std::span<const ConvertTask> tasks, const ConvertWish& wish,
                   const std::function<void(std::size_t task, Converted&& converted)>& done) {
  const Threads threads;
  std::mutex mutex;
  const auto convert_one = [&](std::size_t i, std::size_t threads_of_one) {
    ConvertWish own = wish;
    own.threads = threads_of_one;
    if (!tasks[i].name.empty()) own.name = tasks[i].name;
    Converted converted = convert_file(tasks[i].file, tasks[i].directory, own);
    const std::scoped_lock lock(mutex);
    done(i, std::move(converted));
  };
  std::vector<std::size_t> small;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    std::error_code problem;
    const std::uintmax_t bytes = std::filesystem::file_size(tasks[i].file, problem);
    if (!problem && bytes >= kLargeBytes) {
      convert_one(i, threads.count());
    } else {
      small.push_back(i);
    }
  }
  threads.for_each(small.size(), [&](std::size_t i) { convert_one(small[i], 1); });
}

}  // namespace sonde
