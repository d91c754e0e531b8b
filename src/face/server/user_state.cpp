#include "face/server/user_state.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>

#include "face/server/guard.h"
#include "ground/files/files.h"
#include "ground/files/safe_path.h"

extern char** environ;

namespace sonde::server {
namespace {

constexpr std::size_t kTokenDigits = 32;
constexpr mode_t kOwnerOnly = 0600;

std::filesystem::path absolute_variable(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && text[0] == '/' ? std::filesystem::path(text) : std::filesystem::path();
}

std::filesystem::path state_directory() {
  if (const auto state = absolute_variable("XDG_STATE_HOME"); !state.empty()) return state / "sonde";
  const auto home = absolute_variable("HOME");
  return home.empty() ? home : home / ".local" / "state" / "sonde";
}

bool is_token(std::string_view text) {
  return text.size() == kTokenDigits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// A regular file of this user that nobody else can read or write.
bool is_owners_alone(int file) {
  struct stat found;
  return ::fstat(file, &found) == 0 && S_ISREG(found.st_mode) && found.st_uid == ::geteuid() &&
         (found.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

std::string token_in(int directory) {
  const Fd file(::openat(directory, "token", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  std::array<char, kTokenDigits + 1> bytes;
  if (file.get() < 0 || !is_owners_alone(file.get())) return "";
  const ssize_t size = ::read(file.get(), bytes.data(), bytes.size());
  const std::string text(bytes.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  return is_token(text) ? text : "";
}

// In place of what has this name, at once: a reader sees the old file or the whole new one.
bool write_owners(int directory, const std::string& name, const std::string& text) {
  const std::string partial = name + "." + std::to_string(::getpid());
  ::unlinkat(directory, partial.c_str(), 0);
  const Fd file(::openat(directory, partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kOwnerOnly));
  if (file.get() < 0) return false;
  const bool is_written = ::write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  return is_written && ::renameat(directory, partial.c_str(), directory, name.c_str()) == 0;
}

// The file that leads a browser to the address.
std::string leading_to(const std::string& address) {
  return "<!doctype html><meta charset=utf-8><meta http-equiv=refresh content=\"0;url=" + address +
         "\"><title>sonde</title><a href=\"" + address + "\">" + "sonde serve</a>\n";
}

Status start(const std::string& program, const std::string& argument) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_RDWR, 0);
  }
  std::array<char*, 3> arguments = {const_cast<char*>(program.c_str()), const_cast<char*>(argument.c_str()), nullptr};
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return Error{ErrorCode::not_found, "cannot start '" + program + "': " + std::strerror(failed)};
  std::thread([child] { ::waitpid(child, nullptr, 0); }).detach();  // or it stays a zombie
  return {};
}

}  // namespace

Result<std::string> user_token() {
  Result<std::string> made = make_token();
  const std::filesystem::path place = state_directory();
  if (!made || place.empty()) return made;
  const Result<Fd> directory = open_dump_path(place, Missing::make);
  if (!directory) return made;
  if (std::string kept = token_in(directory->get()); !kept.empty()) return kept;
  if (!write_owners(directory->get(), "token", *made)) return made;
  const std::string kept = token_in(directory->get());  // of another server that started with this one
  return kept.empty() ? made : Result<std::string>(kept);
}

Status open_in_browser(const std::string& address) {
  const std::filesystem::path place = state_directory();
  const Result<Fd> directory =
      place.empty() ? Result<Fd>(Error{ErrorCode::not_found, "HOME is not set"}) : open_dump_path(place, Missing::make);
  if (!directory) return directory.error();
  if (!write_owners(directory->get(), "open.html", leading_to(address)))
    return Error{ErrorCode::io, "cannot write '" + (place / "open.html").string() + "': " + std::strerror(errno)};
  const std::string file = "file://" + (place / "open.html").string();
  if (const char* browser = std::getenv("BROWSER"); browser != nullptr && browser[0] != '\0')
    return start(browser, file);
  const Status started = start("xdg-open", file);
  return started ? started : start("open", file);
}

}  // namespace sonde::server
