#include "run_alerts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <tuple>
#include <utility>

#include "ask/watch/watch_conditions.h"
#include "child.h"
#include "dump.h"
#include "python_programs.h"
#include "python_verbs.h"

namespace sonde {
namespace {

constexpr std::string_view kFirstBad = "bad";
constexpr std::size_t kLongestSettings = 32 << 10;  // a pipe holds twice as much

bool is_web_address(std::string_view url) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (url.starts_with(scheme)) return url.size() > scheme.size() && url[scheme.size()] != '/';
  }
  return false;
}

std::string alert_settings_of(const RunCommand& options, const std::filesystem::path& dump) {
  Json settings = {
      {"sonde", fmt::format("/proc/{}/exe", ::getpid())}, {"dump", dump.string()}, {"conditions", options.alert}};
  if (options.alert_stop) settings["stop"] = ::getpid();  // which passes signals on to the command
  return request_with(std::move(settings), {{"command", options.alert_command}, {"url", options.alert_url}});
}

}  // namespace

std::optional<std::string> what_is_wrong_with_alerts(const RunCommand& options) {
  if (options.alert.empty()) return std::nullopt;  // the others need it
  for (const std::string& condition : options.alert) {
    if (condition == kFirstBad) continue;
    if (const Result<WatchCondition> parsed = parse_condition(condition); !parsed) {
      return fmt::format("--alert: {}; or give '{}' for the first bad value", parsed.error().message, kFirstBad);
    }
  }
  if (alert_settings_of(options, {}).size() > kLongestSettings)
    return "--alert: the conditions and the command are too long";
  if (!options.alert_url.empty() && !is_web_address(options.alert_url)) {
    return "--alert-url: expected an address that begins with http:// or https://";
  }
  return std::nullopt;
}

Alerts::Alerts(const RunCommand& options, const std::filesystem::path& dump) {
  if (options.alert.empty()) return;
  // Not as arguments, which other users see: an address may hold a password. Before there is a reader: it cannot be gone.
  const std::string text = alert_settings_of(options, dump) + "\n";
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    print_warning("--alert: cannot make a pipe; nothing is looked for");
    return;
  }
  std::ignore = ::write(ends[1], text.data(), text.size());
  const Result<pid_t> pid = start_child(python_command(default_python(), kAlerts, {}), python_setting(), ends[0]);
  ::close(ends[0]);
  if (!pid) {
    ::close(ends[1]);
    print_warning("--alert: " + pid.error().message + "; nothing is looked for");
    return;
  }
  pid_ = *pid;
  input_ = ends[1];
}

Alerts::~Alerts() {
  if (pid_ == 0) return;
  ::close(input_);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace sonde
