// Api: the answer to every request: guard, assets of the page, and what is below api/v1/ (openapi.json).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "face/server/guard.h"
#include "face/server/http.h"
#include "face/server/jobs.h"
#include "face/server/message.h"
#include "face/server/served_dump.h"

namespace sonde::server {

struct ApiOptions {
  std::string token;  // empty: none is asked for (a Unix socket)
  std::vector<std::string> allowed_hosts;
};

class Api {
 public:
  // The first is the target; a second one is golden.
  Api(const std::vector<std::filesystem::path>& dumps, ApiOptions options);

  void start();  // reads the dumps
  Response answer(const Request& request);
  std::string events(std::uint64_t after, std::uint64_t& last) const { return events_.after(after, last); }

 private:
  Response answer_checked(const Request& request);
  Response answer_api(const Request& request, std::string_view path);
  Response answer_job(const Request& request, std::string_view path);
  Response answer_dump(const Request& request, std::string_view path);
  Json status() const;
  Result<Response> job_file(std::uint64_t number) const;
  Result<Response> pairs(const Request& request) const;
  Result<Json> measure(std::size_t dump, const std::atomic<bool>& is_cancelled);
  void job_done(const Job& job);

  Guard guard_;
  Events events_;
  std::vector<std::unique_ptr<ServedDump>> dumps_;
  std::unique_ptr<Jobs> jobs_;
};

}  // namespace sonde::server
