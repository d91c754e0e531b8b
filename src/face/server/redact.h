// Redactor: answers without host, paths, command, source, values and names. A name becomes numbers, the same one each time:
// "Default/network-Net/relu-op0" -> "n1/n2/relu-op0". Types of operators that Sonde knows stay.
//
// Everything that is not known to be harmless is left out: of texts only those stay that contract/words.toml names.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "ground/contract/json.h"
#include "ground/contract/privacy.h"

namespace sonde::server {

class Redactor {
 public:
  Json redacted(const Json& answer);
  std::string name(std::string_view name);  // of an op, a scope, a parameter
  std::string rank(std::string_view rank);  // "0", "0 of run7"

 private:
  Json value(std::string_view member, const Json& value);
  std::string text(Privacy privacy, const std::string& text);
  std::string part(std::string_view part);
  std::string type(std::string_view op_type);

  std::map<std::string, std::size_t, std::less<>> parts_, types_;
};

}  // namespace sonde::server
