// Api: the answer to every request: guard, assets of the page, and what is
// below api/v1/ (openapi.json).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "face/server/guard.h"
#include "face/server/http.h"
#include "face/server/jobs.h"
#include "face/server/message.h"
#include "face/server/pairs.h"
#include "face/server/served_dumps.h"
#include "ground/base/mutex.h"

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
  Result<Response> job_file(std::uint64_t number) const;
  Result<Response> pairs(const Request& request);
  Result<std::shared_ptr<const ComparedPairs>> pairs_of(std::uint64_t job, const std::string& document);

  Guard guard_;
  Events events_;
  ServedDumps dumps_;
  Jobs jobs_;
  Mutex pairs_mutex_;
  std::shared_ptr<const ComparedPairs> pairs_ GUARDED_BY(pairs_mutex_);  // of the last comparison that was asked for
  std::uint64_t pairs_job_ GUARDED_BY(pairs_mutex_) = 0;
};

}  // namespace sonde::server
