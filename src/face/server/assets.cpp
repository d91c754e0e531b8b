#include "face/server/assets.h"

#include <algorithm>
#include <string>

#include "face/server/linked_files.h"

namespace sonde::server {
namespace {

constexpr std::string_view kNoPage =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Sonde</title>"
    "<h1>This Sonde was built without its page</h1>"
    "<p>The data are below api/v1/ all the same (docs/rest.md). To get the page, install Node 20.19 or later and call "
    "scripts/setup again, or install a wheel of Sonde.</p></html>";

std::string_view type_of(std::string_view path) {
  constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
      {".html", "text/html; charset=utf-8"}, {".js", "text/javascript; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},   {".svg", "image/svg+xml"},
      {".json", "application/json"},         {".txt", "text/plain; charset=utf-8"}};
  for (const auto& [end, type] : kTypes) {
    if (path.ends_with(end)) return type;
  }
  return "application/octet-stream";
}

const LinkedFile* find(std::string_view path) {
  const auto found = std::ranges::find(linked_files(), path, &LinkedFile::path);
  return found == linked_files().end() ? nullptr : &*found;
}

}  // namespace

bool has_page() { return find("index.html") != nullptr; }

std::vector<std::string_view> asset_paths() {
  std::vector<std::string_view> paths;
  for (const LinkedFile& file : linked_files()) paths.push_back(file.path);
  return paths;
}

std::string_view asset_text(std::string_view path) {
  const LinkedFile* const file = find(path);
  return file == nullptr ? std::string_view() : file->text;
}

std::string_view openapi_text() { return asset_text("openapi.json"); }

Response asset(const Request& request) {
  const std::string_view path = request.path == "/" ? "index.html" : std::string_view(request.path).substr(1);
  Response response;
  response.type = type_of(path);
  response.headers.emplace_back("Cache-Control", path == "index.html" ? "no-cache" : "max-age=31536000, immutable");
  const LinkedFile* const file = path == "openapi.json" ? nullptr : find(path);
  if (file == nullptr) {
    if (path == "index.html") {
      response.body = kNoPage;
      return response;
    }
    return problem(404, "there is no such file of the page");
  }
  const LinkedFile* const packed = find(std::string(path) + ".gz");
  if (packed != nullptr && request.header("accept-encoding").find("gzip") != std::string_view::npos) {
    response.headers.emplace_back("Content-Encoding", "gzip");
    response.tail = packed->text;
  } else {
    response.tail = file->text;
  }
  return response;
}

}  // namespace sonde::server
