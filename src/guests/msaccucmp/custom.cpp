#include "guests/msaccucmp/custom.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "ground/base/python_path.h"
#include "ground/files/files.h"
#include "ground/stats/pair_kernels.h"
#include "ground/stats/pair_values.h"

extern char** environ;

namespace sonde {
extern const char* const kComputeAlgorithms;  // the text of python/sonde/programs/compute_algorithms.py
}  // namespace sonde

namespace sonde::msaccucmp {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "alg_", kSuffix = ".py";

struct Pipe {
  Fd read, write;

  bool open() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    read = Fd(ends[0]);
    write = Fd(ends[1]);
    return true;
  }
};

bool read_all(int fd, void* data, std::size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::read(fd, at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

// A write to a process that has ended must be an error, and not end this process.
class WithoutPipeSignal {
 public:
  WithoutPipeSignal() {
    struct sigaction ignore = {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGPIPE, &ignore, &before_);
  }
  ~WithoutPipeSignal() { ::sigaction(SIGPIPE, &before_, nullptr); }

 private:
  struct sigaction before_ = {};
};

std::vector<float> as_floats(const TensorView& view) {
  std::vector<float> values(static_cast<std::size_t>(view.elements()));
  PairValues from(chosen_pair_kernel(), view, false);
  from.seek(0);
  for (std::size_t done = 0; done < values.size();) {
    const std::size_t count = std::min(kPairBlock, values.size() - done);
    std::copy_n(from.next<float>(count), count, values.data() + done);
    done += count;
  }
  return values;
}

}  // namespace

struct CustomAlgorithms::Process {
  std::mutex mutex;
  pid_t pid = -1;
  Fd requests, answers;

  ~Process() {
    requests.reset();  // closes its input, which ends it
    if (pid > 0) ::waitpid(pid, nullptr, 0);
  }
};

CustomAlgorithms::CustomAlgorithms() : process_(std::make_unique<Process>()) {}
CustomAlgorithms::~CustomAlgorithms() = default;

std::vector<std::string> custom_algorithms(const std::string& directory) {
  std::vector<std::string> names;
  if (directory.empty()) return names;
  std::error_code problem;
  for (fs::directory_iterator entry(fs::path(directory) / "algorithm", problem), end; !problem && entry != end;
       entry.increment(problem)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(kPrefix) && name.ends_with(kSuffix) && name.size() > kPrefix.size() + kSuffix.size()) {
      names.push_back(name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size()));
    }
  }
  std::ranges::sort(names);
  return names;
}

Outcome<std::unique_ptr<CustomAlgorithms>> CustomAlgorithms::start(const std::string& directory,
                                                                   const std::string& options) {
  Pipe requests, answers;
  const auto failed = [](int number) {
    return Failure{Code::unknown_algorithm,
                   fmt::format("custom algorithms need python3, which cannot be started: {}", std::strerror(number))};
  };
  if (!requests.open() || !answers.open()) return failed(errno);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // First moves both to numbers that neither pipe has: one may have the number that the other needs.
  posix_spawn_file_actions_adddup2(&actions, requests.read.get(), 100);
  posix_spawn_file_actions_adddup2(&actions, answers.write.get(), 101);
  posix_spawn_file_actions_adddup2(&actions, 100, 3);
  posix_spawn_file_actions_adddup2(&actions, 101, 4);
  posix_spawn_file_actions_addclose(&actions, 100);
  posix_spawn_file_actions_addclose(&actions, 101);
  std::string python = "python3", code = "-c", program = kComputeAlgorithms, where = fs::absolute(directory).string(),
              what = options;
  char* arguments[] = {python.data(), code.data(), program.data(), where.data(), what.data(), nullptr};
  std::unique_ptr<CustomAlgorithms> custom(new CustomAlgorithms);
  std::vector<std::string> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (!std::string_view(*entry).starts_with("PYTHONPATH=")) kept.emplace_back(*entry);
  }
  if (const std::string path = safe_python_path(); !path.empty()) kept.push_back("PYTHONPATH=" + path);
  std::vector<char*> environment;
  for (std::string& entry : kept) environment.push_back(entry.data());
  environment.push_back(nullptr);
  const int problem =
      ::posix_spawnp(&custom->process_->pid, "python3", &actions, nullptr, arguments, environment.data());
  posix_spawn_file_actions_destroy(&actions);
  if (problem != 0) return failed(problem);
  custom->process_->requests = std::move(requests.write);
  custom->process_->answers = std::move(answers.read);
  return custom;
}

CustomAlgorithms::Answer CustomAlgorithms::compute(const std::string& name, const TensorView& left,
                                                   const TensorView& right, bool is_scalar, std::string_view left_path,
                                                   std::string_view right_path) {
  const std::vector<float> left_values = as_floats(left), right_values = as_floats(right);
  const auto bytes = [](const std::vector<float>& values) {
    return std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  };
  const std::string_view parts[] = {
      name, left_path, right_path, is_scalar ? "1" : "0", bytes(left_values), bytes(right_values)};
  std::uint64_t lengths[6];
  for (std::size_t i = 0; i < 6; ++i) lengths[i] = parts[i].size();
  const std::lock_guard lock(process_->mutex);
  const WithoutPipeSignal without_signal;
  const Answer ended{"NaN", fmt::format("algorithm {}: python3 has ended", name)};
  if (write_all(process_->requests.get(), lengths, sizeof lengths) != 0) return ended;
  for (const std::string_view part : parts) {
    if (write_all(process_->requests.get(), part.data(), part.size()) != 0) return ended;
  }
  std::uint64_t answer_lengths[2];
  if (!read_all(process_->answers.get(), answer_lengths, sizeof answer_lengths)) return ended;
  constexpr std::uint64_t kLongest = 1 << 20;
  if (answer_lengths[0] > kLongest || answer_lengths[1] > kLongest) return ended;
  Answer answer{std::string(answer_lengths[0], '\0'), std::string(answer_lengths[1], '\0')};
  if (!read_all(process_->answers.get(), answer.value.data(), answer.value.size()) ||
      !read_all(process_->answers.get(), answer.message.data(), answer.message.size())) {
    return ended;
  }
  return answer;
}

}  // namespace sonde::msaccucmp
