// One gzip member; the same input gives the same bytes.
#pragma once

#include <string>
#include <string_view>

namespace sonde::server {

enum class GzipLevel { fast = 1, good = 6 };
std::string gzipped(std::string_view text, GzipLevel level);  // empty: no memory

}  // namespace sonde::server
