// Dumps at URLs: a Python program (python/sonde/programs/remote_dump.py), which has fsspec, mirrors the names of their
// files into a directory of this machine, and brings the bytes of those that a verb reads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sonde {

// s3://bucket/run7
bool is_url(const std::string& text);

// Puts the path of its mirror in the place of each URL; a path in the mirror of a program that started this one gets its
// files from there. `rank`: only that rank is looked at. Otherwise the exit status, after a line on stderr.
std::optional<int> open_remote_dumps(const std::vector<std::string*>& dumps, std::optional<std::uint32_t> rank);

// The exit status, after a line on stderr, if it is a URL: everything is written to this machine.
std::optional<int> refuse_url(const std::string& output);

}  // namespace sonde
