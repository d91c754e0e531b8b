// HtmlFile: the page and answers to its requests in one file that needs neither server nor network.
//
// The answers are one sequence of bytes. It is cut into pieces, each a gzip member in base64 in a script element that no
// browser runs; a table of contents says where an answer is. The page reads a piece when it needs it
// (web/src/source/embedded.ts).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "face/report/json.h"
#include "face/server/message.h"
#include "sonde/result.h"

namespace sonde::server {

// The name of an answer in the file: the path and the query, sorted by name, as "op?name=a%2Fb&step=2".
std::string answer_key(std::string_view path, const Fields& query);

class HtmlFile {
 public:
  // Fails if the program was built without the page.
  static Result<HtmlFile> begin(std::uint64_t most_bytes);

  // False if the file would become larger than it may.
  bool add(const std::string& key, std::string_view type, std::string_view body);
  bool has(const std::string& key) const { return contents_.contains(key); }
  std::size_t answers() const { return contents_.size(); }

  // The whole file. `about`: what the page says of it.
  Result<std::string> finish(const std::string& title, const Json& about);

 private:
  void end_piece();
  void measure_tail();

  std::uint64_t most_bytes_ = 0, used_bytes_ = 0;
  std::uint64_t offset_ = 0;      // of the next answer
  std::uint64_t tail_bytes_ = 0;  // most that the tail can become
  std::size_t measured_ = 0;      // of the tail, when that was last measured
  std::string tail_;
  std::vector<std::string> pieces_;
  std::map<std::string, Json> contents_;
};

}  // namespace sonde::server
