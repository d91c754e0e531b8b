#include "remote.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "answer.h"
#include "child.h"
#include "face/report/text.h"
#include "ground/base/text.h"
#include "ground/files/brought_files.h"
#include "ground/files/files.h"
#include "python_programs.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

// A line for each mirror, `{path}\t{URL}`, for programs that this one starts. A URL with a password is in memory alone.
constexpr const char* kMirrors = "SONDE_MIRRORS";

constexpr std::string_view kLocal = "file://";

const char* word_of(FileNeed need) {
  switch (need) {
    case FileNeed::part:
      return "part";
    case FileNeed::directory:
      return "directory";
    case FileNeed::tree:
      return "tree";
    default:
      return "file";
  }
}

// The program that brings files: a line of JSON for each request, and one for each answer, which may come in another
// order. It ends when this end of the socket closes.
class Bringer {
 public:
  Result<Json> ask(Json request) {
    std::unique_lock lock(mutex_);
    const std::uint64_t number = ++last_;
    request["number"] = number;
    const std::string line = request.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
    if (!socket_ || !send_all(line)) return ended();
    changed_.wait(lock, [&] { return has_ended_ || answers_.contains(number); });
    const auto found = answers_.find(number);
    if (found == answers_.end()) return ended();
    Json answer = std::move(found->second);
    answers_.erase(found);
    if (!answer.contains("error")) return answer;
    return Error{answer.value("status", 3) == kBadUsage ? ErrorCode::invalid_argument : ErrorCode::io,
                 answer["error"].get<std::string>()};
  }

  Status start() {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      return io_error("make", "a socket", errno);
    }
    socket_ = Fd(ends[0]);
    const Fd input(ends[1]);
    const Result<pid_t> started =
        start_child(python_command(default_python(), kRemoteDump, {}), python_setting(), input.get());
    if (!started) return started.error();
    std::thread([this] { read_answers(); }).detach();  // it lives as long as the process does
    return {};
  }

 private:
  static Error ended() { return Error{ErrorCode::io, "the program that brings files ended without an answer"}; }

  bool send_all(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(socket_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  void read_answers() {
    std::string text;
    char buffer[4096];
    while (true) {
      const ssize_t got = ::read(socket_.get(), buffer, sizeof buffer);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      text.append(buffer, static_cast<std::size_t>(got));
      for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
        Json answer = Json::parse(text.substr(0, end), nullptr, false);
        text.erase(0, end + 1);
        if (!answer.is_object() || !answer.contains("number")) continue;
        const std::lock_guard lock(mutex_);
        const auto number = answer["number"].get<std::uint64_t>();
        answers_.insert_or_assign(number, std::move(answer));
        changed_.notify_all();
      }
    }
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    changed_.notify_all();
  }

  Fd socket_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t last_ = 0;
  bool has_ended_ = false;
  std::map<std::uint64_t, Json> answers_;
};

// A dump at a URL and its mirror. Never freed: threads of the engine may ask until the process ends.
class RemoteDump {
 public:
  explicit RemoteDump(std::string url) : url_(std::move(url)) {}

  // `looks_again`: whether the source has changed; not where a program that started this one has just done so.
  Result<Json> open(std::optional<std::uint32_t> rank, bool looks_again) {
    const std::lock_guard lock(mutex_);
    if (bringer_) return Json();
    auto bringer = std::make_unique<Bringer>();
    if (Status started = bringer->start(); !started) return started.error();
    Json request = {{"need", "open"}, {"url", url_}, {"look", looks_again}};
    if (rank) request["rank"] = *rank;
    Result<Json> opened = bringer->ask(std::move(request));
    if (opened) bringer_ = std::move(bringer);
    return opened;
  }

  Status bring(const FileRequest& request) {
    if (Result<Json> opened = open(std::nullopt, false); !opened) return opened.error();
    const Result<Json> done = bringer_->ask({{"need", word_of(request.need)},
                                             {"path", request.path.string()},
                                             {"offset", request.offset},
                                             {"bytes", request.bytes}});
    return done ? Status() : Status(done.error());
  }

 private:
  std::string url_;
  std::mutex mutex_;
  std::unique_ptr<Bringer> bringer_;
};

void add_source(const std::string& root, const std::string& name, RemoteDump* dump) {
  add_file_source(root, name, [dump](const FileRequest& request) { return dump->bring(request); });
}

// For programs that this one starts later; there is one thread yet.
void remember(const std::string& root, const std::string& name, const std::string& url) {
  const char* const known = std::getenv(kMirrors);
  const std::string lines = known == nullptr ? "" : std::string(known) + "\n";
  ::setenv(kMirrors, fmt::format("{}{}\t{}\t{}", lines, root, name, url).c_str(), 1);
}

// The mirrors of the program that started this one.
void add_known_mirrors() {
  const char* const known = std::getenv(kMirrors);
  if (known == nullptr) return;
  for (const std::string_view line : split(known, '\n')) {
    const std::vector<std::string_view> parts = split(line, '\t');
    if (parts.size() == 3) {
      add_source(std::string(parts[0]), std::string(parts[1]), new RemoteDump(std::string(parts[2])));
    }
  }
}

}  // namespace

bool is_url(const std::string& text) {
  const std::size_t end = text.find("://");
  if (end == std::string::npos || end == 0 || std::isalpha(static_cast<unsigned char>(text[0])) == 0) return false;
  return std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '+' || c == '-' || c == '.' || c == ':';
  });
}

namespace {

// s3:/bucket/run7 lacks a slash.
std::optional<int> complain_of_slash(const std::string& dump) {
  const std::size_t end = dump.find(":/");
  std::error_code failed;
  if (end == std::string::npos || end + 2 >= dump.size() || !is_url(dump.substr(0, end) + "://") ||
      fs::exists(fs::symlink_status(dump, failed)))
    return std::nullopt;
  return print_error(
      Error{ErrorCode::not_found, fmt::format("cannot open dump '{}': no such directory; did you mean '{}://{}'?", dump,
                                              dump.substr(0, end), dump.substr(end + 2))},
      kUnreadable);
}

}  // namespace

std::optional<int> open_remote_dumps(const std::vector<std::string*>& dumps, std::optional<std::uint32_t> rank) {
  static const bool known = (add_known_mirrors(), true);
  static_cast<void>(known);
  std::map<std::string, std::string> paths;  // two dumps may be one
  for (std::string* dump : dumps) {
    if (!is_url(*dump)) {
      if (const std::optional<int> status = complain_of_slash(*dump)) return status;
      continue;
    }
    if (dump->starts_with(kLocal)) {
      *dump = dump->substr(kLocal.size());
      continue;
    }
    if (!paths.contains(*dump)) {
      auto* const remote = new RemoteDump(*dump);
      const Result<Json> opened = remote->open(rank, true);
      if (!opened) return print_error(opened.error(), kUnreadable);
      const auto root = (*opened)["root"].get<std::string>(), name = (*opened)["name"].get<std::string>();
      add_source(root, name, remote);
      remember(root, name, *dump);
      paths[*dump] = (*opened)["path"].get<std::string>();
    }
    *dump = paths[*dump];
  }
  return std::nullopt;
}

std::optional<int> refuse_url(const std::string& output) {
  if (!is_url(output)) return std::nullopt;
  const std::string scheme = output.substr(0, output.find("://"));
  print_error(
      fmt::format("cannot write to a URL ({}://…): name a path of this machine, and copy it afterwards", scheme));
  return kBadUsage;
}

}  // namespace sonde
