// ServedDumps: the dumps of a server, or of a report, and the functions that answer a question to one of them.
//
//   ServedDumps dumps({"/data/run7"}, events);
//   dumps.read_once();                                    // or follow(), on threads of their own
//   Response answer = dumps.answer(request, "overview");  // routes: ask.h
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include "face/server/events.h"
#include "face/server/jobs.h"
#include "face/server/message.h"
#include "face/server/served_dump.h"

namespace sonde::server {

class ServedDumps {
 public:
  // The first is the target; a second one is golden.
  ServedDumps(const std::vector<std::filesystem::path>& dumps, Events& events);

  void follow();  // reads them on threads, and again as they grow
  Status read_once();

  ServerStatus status() const;
  Response answer(const Request& request, std::string_view path);
  Jobs::Hooks hooks();  // of jobs on these dumps

 private:
  Response answer_checked(const Request& request, std::string_view path);
  Result<Measured> measure(std::size_t dump, const std::atomic<bool>& is_cancelled);
  void job_done(const KeptJob& job);

  Events& events_;
  std::vector<std::unique_ptr<ServedDump>> dumps_;
};

}  // namespace sonde::server
