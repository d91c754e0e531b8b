// write_sample_journal FILE: two runs, the second killed in the middle of an entry. Prints the expected result of a
// reader, as JSON, on stdout; doubles as the 16 hex digits of their bits, since JSON has no NaN and loses digits.
#include <bit>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "sample.h"

namespace {

using nlohmann::ordered_json;

std::string hex(double value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(std::bit_cast<std::uint64_t>(value)));
  return text;
}

ordered_json json_of(const sonde::Statistics& s) {
  return {{"count", s.count},
          {"nan_count", s.nan_count},
          {"positive_inf_count", s.positive_inf_count},
          {"negative_inf_count", s.negative_inf_count},
          {"positive_count", s.positive_count},
          {"negative_count", s.negative_count},
          {"zero_count", s.zero_count},
          {"max", hex(s.max)},
          {"min", hex(s.min)},
          {"sum", hex(s.sum)},
          {"sum_squares", hex(s.sum_squares)}};
}

ordered_json json_of(const sonde::TensorRecord& tensor, const std::string& file) {
  ordered_json json = {{"is_input", tensor.is_input},
                       {"wanted", tensor.wanted},
                       {"slot", tensor.slot},
                       {"dtype", static_cast<int>(tensor.dtype)},
                       {"shape", tensor.shape.values()},
                       {"content", tensor.content},
                       {"parameter", tensor.parameter},
                       {"placement", tensor.placement},
                       {"timestamp_us", tensor.timestamp_us},
                       {"skipped", tensor.skipped == nullptr ? "" : tensor.skipped},
                       {"md5", tensor.md5},
                       {"sha1", tensor.sha1},
                       {"file", file}};
  json["source"] = tensor.source == sonde::kNoSequence ? ordered_json() : ordered_json(tensor.source);
  json["source_slot"] = tensor.source_slot;
  json["constant"] = tensor.constant ? ordered_json(*tensor.constant) : ordered_json();
  json["statistics"] = tensor.has_statistics ? json_of(tensor.statistics) : ordered_json();
  return json;
}

std::string file_of(const sonde::SampleRun& run, std::uint64_t sequence, const sonde::TensorRecord& tensor) {
  for (const auto& entry : run.files) {
    if (entry.sequence == sequence && entry.is_input == tensor.is_input && entry.slot == tensor.slot) {
      return entry.file;
    }
  }
  return "";
}

ordered_json trace_of(const sonde::Site& site) {
  ordered_json trace = ordered_json::array();
  for (const sonde::SourceLine& line : site.trace) {
    trace.push_back({line.file, line.line, line.function, line.column, line.end_line, line.end_column});
  }
  return trace;
}

ordered_json json_of(const sonde::SampleRun& run, bool finished) {
  ordered_json json = {{"header", run.header}, {"end", finished ? run.end : ""}};
  for (const sonde::Site& site : run.sites) {
    json["sites"].push_back({{"id", site.id},
                             {"phase", static_cast<int>(site.phase)},
                             {"op_type", site.op_type},
                             {"scope", site.scope},
                             {"forward_op_type", site.forward_op_type},
                             {"forward_site", site.forward_site},
                             {"trace", trace_of(site)}});
  }
  for (const sonde::Attributes& attributes : run.attributes) {
    for (const sonde::Attribute& attribute : attributes.values) {
      json["attributes"].push_back({{"id", attributes.id},
                                    {"name", attribute.name},
                                    {"kind", static_cast<int>(attribute.kind)},
                                    {"text", attribute.text},
                                    {"integers", attribute.integers},
                                    {"reals", attribute.reals}});
    }
  }
  for (const sonde::OpName& name : run.op_names) {
    json["op_names"].push_back({{"id", name.id}, {"op_type", name.op_type}, {"op_name", name.op_name}});
  }
  for (const sonde::Record& record : run.records) {
    ordered_json item = {{"kind", static_cast<int>(record.kind)},
                         {"failed", record.failed},
                         {"sequence", record.sequence},
                         {"graph", record.step.graph},
                         {"iteration", record.step.number},
                         {"op", record.op == nullptr ? 0 : record.op->id},
                         {"site", record.site},
                         {"thread", record.thread},
                         {"timestamp_us", record.timestamp_us},
                         {"note", ""},
                         {"attributes", record.attributes},
                         {"call_number", record.call_number},
                         {"tensors", ordered_json::array()}};
    for (const sonde::TensorRecord& tensor : record.tensors) {
      item["tensors"].push_back(json_of(tensor, file_of(run, record.sequence, tensor)));
    }
    json["records"].push_back(std::move(item));
  }
  ordered_json note{{"kind", static_cast<int>(sonde::RecordKind::note)}, {"sequence", sonde::kNoSequence}};
  for (const char* key : {"graph", "iteration", "op", "site", "thread", "timestamp_us", "attributes", "call_number"})
    note[key] = 0;
  note["failed"] = false;
  note["note"] = run.note;
  note["tensors"] = ordered_json::array();
  json["records"].push_back(std::move(note));
  return json;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: write_sample_journal FILE\n";
    return 2;
  }
  const sonde::SampleRun run = sonde::sample_run();
  const std::string torn = sonde::write(run).substr(0, sonde::write(run, false).size() + 5);
  std::ofstream file(argv[1], std::ios::binary);
  file << sonde::write(run) << torn;
  std::cout << ordered_json{{"runs", {json_of(run, true), json_of(run, false)}}, {"torn_bytes", 5}} << "\n";
  return file.good() ? 0 : 1;
}
