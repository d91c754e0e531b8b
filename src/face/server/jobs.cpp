#include "face/server/jobs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "ground/base/clock.h"
#include "ground/base/json.h"
#include "ground/base/text.h"
#include "ground/contract/read_json.h"
#include "ground/files/files.h"
#include "ground/files/mapped_file.h"
#include "ground/files/scratch.h"

namespace sonde::server {

// The files of a command, in a directory of the job.
struct CommandFiles {
  std::optional<Scratch> directory;
  std::filesystem::path written;  // by the command; empty: it writes none
};

namespace {

constexpr std::size_t kKept = 32;                  // jobs that are done
constexpr std::size_t kMostBytes = 512ULL << 20U;  // of an answer
constexpr int kNice = 10;

bool is_over(const KeptJob& job) { return job.job.state != JobState::waiting && job.job.state != JobState::running; }

Json event_of(const Job& job) { return {{"job", job.job}, {"state", word_of(job.state)}}; }

Error no_job(std::uint64_t number) { return {ErrorCode::not_found, fmt::format("there is no job {}", number)}; }

// Nothing was looked at: the document says why, and nothing else.
bool is_only_error(const Json& answer) {
  if (!answer.contains("error")) return false;
  for (const auto& [name, ignored] : answer.items()) {
    if (name != "error" && name != "problems" && name != "warnings") return false;
  }
  return true;
}

// The directory of a job means nothing to a reader.
void forget_path(const std::string& path, std::string& text) {
  for (std::size_t at = text.find(path); at != std::string::npos; at = text.find(path, at)) text.erase(at, path.size());
}

std::string all_of(int fd, const std::atomic<bool>& is_cancelled, bool& too_large) {
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || is_cancelled) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    too_large = text.size() > kMostBytes;
    if (too_large) return text;
  }
}

// The text of a shell command, for people.
std::string shell_text(const std::vector<std::string>& words) {
  std::string out = "sonde";
  for (const std::string& word : words) {
    const bool is_plain = !word.empty() && std::ranges::all_of(word, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             std::string_view("-_./=:,+@%").find(c) != std::string_view::npos;
    });
    out += ' ' + (is_plain ? word : shell_quoted(word));
  }
  return out;
}

// Gives the options of kFileOptions paths in the directory, and writes the file
// of the mapping.
Status place_files(const JsonText& arguments, std::vector<std::string>& words, CommandFiles& files) {
  for (std::string& word : words) {
    const auto option = std::ranges::find_if(kFileOptions, [&](std::string_view o) { return word.starts_with(o); });
    if (option == kFileOptions.end()) continue;
    if (!files.directory && files.directory.emplace().path().empty()) {
      return Error{ErrorCode::io, "cannot make a directory in TMPDIR or /tmp"};
    }
    const std::filesystem::path file = files.directory->path() / word.substr(option->size());
    word = std::string(*option) + file.string();
    if (*option != kMappingOption) {
      files.written = file;
    } else if (!(std::ofstream(file) << json_of_text(arguments.text).at("mapping").get<std::string>()).flush()) {
      return Error{ErrorCode::io, "cannot write the mapping to a file in TMPDIR or /tmp"};
    }
  }
  return {};
}

// Starts this program as a command; -1 with errno if it cannot. `output` is
// what the command prints.
pid_t start_command(std::vector<std::string>& words, Fd& output) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  int pipe[2] = {-1, -1};
  if (::pipe2(pipe, O_CLOEXEC) != 0) return -1;
  output = Fd(pipe[0]);
  const Fd input_of_pipe(pipe[1]), nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const pid_t child = ::fork();
  if (child == 0) {  // only functions that a fork of a program with threads may call
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::setpriority(PRIO_PROCESS, 0, kNice);
    ::dup2(nothing.get(), 0);
    ::dup2(input_of_pipe.get(), 1);
    ::dup2(nothing.get(), 2);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    ::execv("/proc/self/exe", arguments.data());
    ::_exit(127);
  }
  return child;
}

// The file that the command wrote, to be saved. That of `next-config` becomes
// the answer itself, in `text`; a report's name comes into the answer, which
// does not name its directory then.
std::optional<std::string> take_file(JobKind kind, const CommandFiles& files, Json& answer, std::string& text) {
  std::optional<std::string> file;
  if (!files.written.empty()) {
    if (Result<std::string> read = read_whole_file(files.written)) file = std::move(*read);
  }
  if (kind == JobKind::next_config) {
    if (file) {
      text = std::move(*file);
    } else if (answer.is_object() && !answer.contains("error")) {
      answer["error"] = {{"message", "nothing wrong was found, so there is no next configuration"}};
    }
    return std::nullopt;
  }
  if (kind == JobKind::report && file && answer.is_object()) {
    answer["file"] = files.written.filename().string();
    text = text_of_json(answer);
  }
  return file;
}

}  // namespace

Jobs::Jobs(std::vector<std::filesystem::path> dumps, Events& events, Hooks hooks)
    : dumps_(std::move(dumps)), events_(events), hooks_(std::move(hooks)) {
  const unsigned threads = std::max(2U, std::thread::hardware_concurrency()) - 1;
  for (unsigned i = 0; i < threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
}

Jobs::~Jobs() {
  for (std::jthread& thread : threads_) thread.request_stop();
  const Lock lock(mutex_);
  for (const std::shared_ptr<KeptJob>& job : jobs_) {
    job->is_cancelled = true;
    if (job->process > 0) ::kill(job->process, SIGKILL);
  }
}

std::string JobResult::text() const {
  std::string text = text_of_json(json_of(job));
  constexpr std::string_view kNone = "null}";
  if (result) text.replace(text.size() - kNone.size(), kNone.size(), *result + "}");
  return text;
}

Result<JobRequest> job_request(const std::string& body) {
  if (is_nested_too_deeply(body)) {
    return Error{ErrorCode::invalid_argument, fmt::format("the request is nested deeper than {} levels", kJsonDepth)};
  }
  const Json request = json_of_text(body);
  const Json kind = request.is_object() ? request.value("kind", Json()) : Json();
  if (!kind.is_string()) {
    return Error{ErrorCode::invalid_argument,
                 "the request has no JSON object with `kind`, as {\"kind\": "
                 "\"first-bad\"}"};
  }
  Result<Read<JobRequest>> read = read_json<JobRequest>(request);
  if (!read) {
    return Error{ErrorCode::invalid_argument, fmt::format("there is no job '{}'; there are {}", kind.get<std::string>(),
                                                          fmt::join(Words<JobKind>::list, ", "))};
  }
  if (!read->unknown.empty()) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("a job has `kind` and `arguments`, not '{}'", read->unknown[0])};
  }
  return std::move(read->answer);
}

Result<Job> Jobs::start(const JobRequest& request) {
  const Json arguments = json_of_text(request.arguments.text);
  Result<std::vector<std::string>> command = job_command(request.kind, arguments, dumps_);
  if (!command) return command.error();
  auto job = std::make_shared<KeptJob>();
  job->job.kind = request.kind;
  job->job.arguments = request.arguments;
  job->job.command = shell_text(*command);
  job->job.created_us = now_us();
  job->command = std::move(*command);
  job->dump = arguments.value("dump", std::size_t{0});
  const Lock lock(mutex_);
  const auto waiting = std::ranges::count(jobs_, JobState::waiting, [](const auto& known) { return known->job.state; });
  if (static_cast<std::size_t>(waiting) >= kJobsWaiting) {
    return Error{ErrorCode::busy, fmt::format("{} jobs are waiting; cancel one, or wait", waiting)};
  }
  job->job.job = ++last_;
  jobs_.push_front(job);
  while (jobs_.size() > kKept && is_over(*jobs_.back())) jobs_.pop_back();
  woken_.notify_one();
  events_.add("job", event_of(job->job));
  return job->job;
}

JobList Jobs::list() const {
  const Lock lock(mutex_);
  JobList list;
  for (const std::shared_ptr<KeptJob>& job : jobs_) list.jobs.push_back(job->job);
  return list;
}

std::shared_ptr<KeptJob> Jobs::find(std::uint64_t number) const {
  const auto found = std::ranges::find(jobs_, number, [](const auto& job) { return job->job.job; });
  return found == jobs_.end() ? nullptr : *found;
}

Result<JobResult> Jobs::one(std::uint64_t number) const {
  const Lock lock(mutex_);
  const std::shared_ptr<KeptJob> job = find(number);
  if (!job) return no_job(number);
  return JobResult(*job);
}

Result<JobResult> Jobs::wait_for(std::uint64_t number) {
  {
    const Lock lock(mutex_);
    ended_.wait(mutex_, [&]() REQUIRES(mutex_) {
      const std::shared_ptr<KeptJob> job = find(number);
      return !job || is_over(*job);
    });
  }
  return one(number);
}

Result<std::pair<std::string, std::shared_ptr<const std::string>>> Jobs::file(std::uint64_t number) const {
  const Lock lock(mutex_);
  const std::shared_ptr<KeptJob> job = find(number);
  if (!job || !job->file) return Error{ErrorCode::not_found, fmt::format("job {} has no file", number)};
  return std::pair(job->job.file, job->file);
}

Result<Job> Jobs::cancel(std::uint64_t number) {
  const Lock lock(mutex_);
  const std::shared_ptr<KeptJob> job = find(number);
  if (!job) return no_job(number);
  if (is_over(*job)) {
    jobs_.remove(job);
    return job->job;
  }
  job->is_cancelled = true;
  if (job->process > 0) ::kill(job->process, SIGKILL);
  if (job->job.state == JobState::waiting) job->job.ended_us = now_us();
  job->job.state = JobState::cancelled;
  events_.add("job", event_of(job->job));
  return job->job;
}

Result<std::pair<std::uint64_t, std::shared_ptr<const std::string>>> Jobs::comparison(std::uint64_t number) const {
  const Lock lock(mutex_);
  for (const std::shared_ptr<KeptJob>& kept : jobs_) {
    const Job& job = kept->job;
    const bool is_meant = number == 0 || job.job == number;
    const bool is_comparison = job.kind == JobKind::compare && job.state == JobState::done;
    if (is_meant && is_comparison) return std::pair(job.job, kept->result);
  }
  return Error{ErrorCode::not_found, number == 0 ? "no compare job is done; start one with POST jobs"
                                                 : fmt::format("job {} is not a compare job that is done", number)};
}

std::shared_ptr<KeptJob> Jobs::next() const {
  for (auto at = jobs_.rbegin(); at != jobs_.rend(); ++at) {
    if ((*at)->job.state == JobState::waiting) return *at;
  }
  return nullptr;
}

void Jobs::work(const std::stop_token& stop) {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)),
                kNice);  // of this thread alone
  while (!stop.stop_requested()) {
    std::shared_ptr<KeptJob> kept;
    {
      const Lock lock(mutex_);
      if (!woken_.wait_for(mutex_, stop, kForever, [&]() REQUIRES(mutex_) { return next() != nullptr; })) return;
      kept = next();
      kept->job.state = JobState::running;
      kept->job.started_us = now_us();
      events_.add("job", event_of(kept->job));
    }
    try {
      run(*kept);
    } catch (const std::exception& error) {  // memory, in practice
      fail(*kept, error.what());
    }
    const Lock lock(mutex_);
    ended_.notify_all();
    events_.add("job", event_of(kept->job));
  }
}

void Jobs::run(KeptJob& job) {
  job.generation = hooks_.generation(job.dump);
  if (job.job.kind != JobKind::measure) return run_command(job);
  const Result<Measured> measured = hooks_.measure(job.dump, job.is_cancelled);
  if (!measured) return fail(job, measured.error().message);
  const Lock lock(mutex_);
  job.job.ended_us = now_us();
  if (job.is_cancelled) return;
  job.job.state = JobState::done;
  job.result = std::make_shared<std::string>(text_of_json(json_of(*measured)));
}

void Jobs::fail(KeptJob& job, std::string error) {
  const Lock lock(mutex_);
  job.job.ended_us = now_us();
  if (job.is_cancelled) return;
  job.job.state = JobState::failed;
  job.job.error = std::move(error);
}

// How the command of a job ended, and what it printed.
struct Jobs::CommandEnd {
  int why = 0;  // the errno of a command that could not be started; 0: it was
  int status = 0;
  bool too_large = false;
  std::string text;
};

Jobs::CommandEnd Jobs::end_of(KeptJob& kept, std::vector<std::string> words) {
  CommandEnd end;
  Fd output;
  const pid_t child = start_command(words, output);
  if (child < 0) {
    end.why = errno;
    return end;
  }
  kept.process = child;
  if (kept.is_cancelled) ::kill(child, SIGKILL);
  end.text = all_of(output.get(), kept.is_cancelled, end.too_large);
  if (end.too_large) ::kill(child, SIGKILL);
  siginfo_t ended{};
  while (::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  const Lock lock(mutex_);  // cancel() must not meet another process with this number
  ::waitpid(child, &end.status, 0);
  kept.process = 0;
  return end;
}

void Jobs::run_command(KeptJob& kept) {
  std::vector<std::string> words = kept.command;
  words.insert(words.begin(), "sonde");
  CommandFiles files;
  if (Status good = place_files(kept.job.arguments, words, files); !good) return fail(kept, good.error().message);
  const bool is_done = take_answer(kept, end_of(kept, std::move(words)), files);
  if (is_done && hooks_.done) hooks_.done(kept);  // first: who sees that it is done sees what follows from it, too
  const Lock lock(mutex_);
  if (!kept.is_cancelled) kept.job.state = is_done ? JobState::done : JobState::failed;
}

bool Jobs::take_answer(KeptJob& kept, CommandEnd end, CommandFiles& files) {
  Job& job = kept.job;
  Json answer = end.why == 0 && !end.too_large ? json_of_text(end.text) : Json();
  std::optional<std::string> file = take_file(job.kind, files, answer, end.text);
  const Lock lock(mutex_);
  job.ended_us = now_us();
  if (kept.is_cancelled) return false;
  if (WIFEXITED(end.status)) job.exit_status = WEXITSTATUS(end.status);
  if (end.why != 0) {
    job.error = std::string("cannot start the job: ") + std::strerror(end.why);
  } else if (end.too_large) {
    job.error = fmt::format("the answer is larger than {} MB; choose fewer steps", kMostBytes >> 20U);
  } else if (!answer.is_object()) {
    job.error = WIFSIGNALED(end.status)
                    ? fmt::format("the job was ended by signal {}", WTERMSIG(end.status))
                    : fmt::format("the job ended with status {} and no answer", WEXITSTATUS(end.status));
  } else {
    job.error = answer.contains("error") ? answer["error"].value("message", "") : "";
    if (files.directory) forget_path(files.directory->path().string() + "/", job.error);
    if (file) {
      job.file = files.written.filename().string();
      kept.file = std::make_shared<std::string>(std::move(*file));
    }
    kept.result = std::make_shared<std::string>(std::move(end.text));
    return job.exit_status.value_or(2) != 2 && !is_only_error(answer);
  }
  return false;
}

}  // namespace sonde::server
