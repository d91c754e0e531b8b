// The files of the page, which are part of the program if it was built with them (CMake's SONDE_WEB), and openapi.json.
#pragma once

#include <string_view>
#include <vector>

#include "face/server/message.h"

namespace sonde::server {

bool has_page();
// The file with the path of the request; without a page a few words.
Response asset(const Request& request);
std::vector<std::string_view> asset_paths();
std::string_view asset_text(std::string_view path);  // empty: there is no such file
std::string_view openapi_text();

}  // namespace sonde::server
