#include "face/server/html_file.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>

#include "face/report/text.h"
#include "face/server/assets.h"
#include "face/server/gzip.h"
#include "ground/contract/json.h"

namespace sonde::server {
namespace {

constexpr std::size_t kPieceBytes =
    1'000'000;                               // before compression: a member stays below 1 MB even if nothing compresses
constexpr std::uint64_t kElementBytes = 80;  // tags of a piece
constexpr std::uint64_t kSlack = 4096;
constexpr std::size_t kMeasureAfter = 8192;

std::string base64(std::string_view bytes) {
  std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0');
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()), reinterpret_cast<const unsigned char*>(bytes.data()),
                  static_cast<int>(bytes.size()));
  out.pop_back();  // its terminating zero
  return out;
}

std::uint64_t base64_bytes(std::uint64_t bytes) { return (bytes + 2) / 3 * 4; }

// As a Content-Security-Policy has it.
std::string hash_of(std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (EVP_Digest(text.data(), text.size(), digest, &length, EVP_sha256(), nullptr) != 1) return "";
  return "'sha256-" + base64({reinterpret_cast<const char*>(digest), length}) + "'";
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '<' ? "&lt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  return out;
}

std::string policy(std::string_view script, std::string_view style) {
  return fmt::format(
      "default-src 'none'; script-src {}; worker-src blob:; style-src {}; img-src blob: data:; connect-src 'none'; "
      "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types sonde-worker",
      hash_of(script), hash_of(style));
}

// The files of the page.
struct PageFiles {
  std::string_view script, style, worker;
};

Result<PageFiles> page_files() {
  PageFiles page;
  for (const std::string_view path : asset_paths()) {
    const std::string_view text = asset_text(path);
    if (path.ends_with(".css")) page.style = text;
    if (path.ends_with(".js")) (path.find("worker") != std::string_view::npos ? page.worker : page.script) = text;
  }
  if (page.script.empty() || page.style.empty() || page.worker.empty()) {
    return Error{ErrorCode::unsupported,
                 "this Sonde was built without its page; install Node 20.19 or later and call scripts/setup again, or "
                 "install a wheel of Sonde"};
  }
  return page;
}

}  // namespace

std::string answer_key(std::string_view path, const Fields& query) {
  std::vector<std::string> parts;
  for (const auto& [name, value] : query) {
    if (value.empty() || (name == "dump" && value == "0")) continue;
    parts.push_back(name + "=" + percent_encoded(value));
  }
  std::ranges::sort(parts);
  std::string key = std::string(path) + "?";
  for (const std::string& part : parts) key += (key.back() == '?' ? "" : "&") + part;
  return key;
}

Result<HtmlFile> HtmlFile::begin(std::uint64_t most_bytes) {
  const Result<PageFiles> page = page_files();
  if (!page) return page.error();
  HtmlFile file;
  file.most_bytes_ = most_bytes;
  file.used_bytes_ = page->script.size() + page->style.size() + kSlack;
  if (!file.add("worker.js?", "text/javascript", page->worker)) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("--max-size: the page alone has {}", bytes_text(file.used_bytes_ + page->worker.size()))};
  }
  return file;
}

void HtmlFile::end_piece() {
  pieces_.push_back(base64(gzipped(std::string_view(tail_).substr(0, kPieceBytes), GzipLevel::good)));
  used_bytes_ += pieces_.back().size() + kElementBytes;
  tail_.erase(0, kPieceBytes);
}

bool HtmlFile::add(const std::string& key, std::string_view type, std::string_view body) {
  const std::uint64_t entry = key.size() / 3 + 24;  // in the table of contents, compressed
  std::uint64_t packed = base64_bytes(body.size()) + kElementBytes;
  const auto has_room = [&] { return used_bytes_ + tail_bytes_ + packed + entry <= most_bytes_; };
  if (!has_room()) {  // nothing is compressed to find this out while there is room
    if (tail_.size() > measured_ + kMeasureAfter) measure_tail();
    packed = std::min<std::uint64_t>(packed, base64_bytes(gzipped(body, GzipLevel::fast).size()) + kElementBytes);
    if (!has_room()) return false;
  }
  contents_[key] = Json::array({type, offset_, body.size()});
  offset_ += body.size();
  used_bytes_ += entry;
  tail_ += body;
  if (tail_.size() < kPieceBytes) {
    tail_bytes_ += packed;
    return true;
  }
  while (tail_.size() >= kPieceBytes) end_piece();
  measure_tail();
  return true;
}

void HtmlFile::measure_tail() {
  tail_bytes_ = base64_bytes(gzipped(tail_, GzipLevel::fast).size()) + kElementBytes;
  measured_ = tail_.size();
}

Result<std::string> HtmlFile::finish(const std::string& title, const Json& about) {
  const Result<PageFiles> page = page_files();
  if (!page) return page.error();
  if (!tail_.empty()) end_piece();
  const Json manifest = {{"about", about}, {"piece_bytes", kPieceBytes}, {"answers", contents_}};
  const std::string text = text_of_json(manifest);
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"referrer\" content=\"no-referrer\">\n"
      "<title>{}</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>{}</style>\n</head>\n<body>\n<div "
      "id=\"page\"></div>\n"
      "<noscript>This report of Sonde needs JavaScript.</noscript>\n<script type=\"module\">{}</script>\n",
      policy(page->script, page->style), escaped(title), page->style, page->script);
  const auto element = [&](std::string_view id, std::string_view content) {
    html += fmt::format("<script type=\"application/octet-stream\" id=\"{}\">{}</script>\n", id, content);
  };
  element("sonde-contents", base64(gzipped(text, GzipLevel::good)));
  for (std::size_t i = 0; i < pieces_.size(); ++i) element(fmt::format("sonde-piece-{}", i), pieces_[i]);
  html += "</body>\n</html>\n";
  return html;
}

}  // namespace sonde::server
