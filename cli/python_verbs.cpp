#include "python_verbs.h"

#include <optional>
#include <utility>

#include "child.h"
#include "dump.h"
#include "python_programs.h"
#include "verbs.h"

namespace sonde {

int answered_by_python(const std::string& python, const char* program, const std::vector<std::string>& arguments) {
  const std::optional<int> status = run_python(python, program, arguments);
  if (!status) return kBadUsage;
  Answer::get().set_form(AnswerForm::text);  // the child has printed the answer
  return *status;
}

std::string request_with(Json request, std::initializer_list<std::pair<const char*, Json>> options) {
  for (const auto& [name, value] : options) {
    if (value != "" && !value.empty()) request[name] = value;
  }
  return request.dump(-1, ' ', true, Json::error_handler_t::replace);
}

int mcp(const McpCommand& options) { return answered_by_python(options.python, kMcpServer, options.dumps); }

int gather(const GatherCommand& options) {
  const std::string request =
      request_with({{"paths", options.paths}, {"checksum", options.checksum}, {"json", options.json}}, {});
  return answered_by_python(options.python, kMovedDump, {"gather", request});
}

int upload(const UploadCommand& options) {
  Json request = {{"dump", options.dump}, {"url", options.url}, {"follow", options.follow}, {"json", options.json}};
  if (options.limit) request["limit"] = *options.limit;
  return answered_by_python(options.python, kMovedDump, {"upload", request_with(std::move(request), {})});
}

int repro(const ReproCommand& options) {
  const std::string request =
      request_with({{"dump", options.dump}, {"json", options.json}},
                   {{"op", options.op}, {"step", options.step}, {"rank", options.rank}, {"to", options.to}});
  return answered_by_python(options.python, kRecordedOp, {"repro", request});
}

int replay(const ReplayCommand& options) {
  const std::string request = request_with({{"dump", options.dump}, {"all", options.all}, {"json", options.json}},
                                           {{"op", options.op}, {"step", options.step}, {"rank", options.rank}});
  return answered_by_python(options.python, kRecordedOp, {"replay", request});
}

}  // namespace sonde
