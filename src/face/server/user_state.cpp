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

Status write_owners(const Fd& directory, const std::filesystem::path& path, const std::string& text) {
  return write_whole_file(directory.get(), directory.get(), path, text, kOwnerOnly);
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
  if (!write_owners(*directory, place / "token", *made)) return made;
  const std::string kept = token_in(directory->get());  // of another server that started with this one
  return kept.empty() ? made : Result<std::string>(kept);
}

Status open_in_browser(const std::string& address) {
  const std::filesystem::path place = state_directory();
  const Result<Fd> directory =
      place.empty() ? Result<Fd>(Error{ErrorCode::not_found, "HOME is not set"}) : open_dump_path(place, Missing::make);
  if (!directory) return directory.error();
  const std::filesystem::path page = place / "open.html";
  if (Status written = write_owners(*directory, page, leading_to(address)); !written) return written;
  const std::string file = "file://" + page.string();
  if (const char* browser = std::getenv("BROWSER"); browser != nullptr && browser[0] != '\0')
    return start(browser, file);
  const Status started = start("xdg-open", file);
  return started ? started : start("open", file);
}

}  // namespace sonde::server
