// The files of the page, which are part of the program if it was built with them (CMake's SONDE_WEB), and openapi.json.
#pragma once

#include <string_view>

#include "server/message.h"

namespace sonde::server {

bool has_page();
// The file with the path of the request; without a page a few words.
Response asset(const Request& request);
std::string_view openapi_text();

}  // namespace sonde::server
