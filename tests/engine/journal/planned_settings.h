// Configurations of every dialect, and the settings by which a dump of each must be read.
#pragma once

#include <string>
#include <vector>

#include "plan/config/dump_settings.h"

namespace sonde {

struct PlannedSettings {
  std::string name;
  std::string configuration;  // of a run that could write to `path`
  DumpSettings settings;
};

// Each configures a dump in `path`.
inline std::vector<PlannedSettings> planned_settings(const std::string& path) {
  const std::string quoted = '"' + path + '"';
  const std::string common = R"("path": )" + quoted + R"(, "dump_mode": 0, "net_name": "Net", "input_output": 0,
      "kernels": [], "support_device": [0], )";
  const std::string e2e = R"(, "e2e_dump_settings": {"enable": true, "trans_flag": true})";
  const auto mindspore = [&](const std::string& keys, const std::string& own = "{}") {
    return R"({"common_dump_settings": {)" + common + R"("iteration": "all")" + keys + "}" + e2e +
           R"(, "sonde_settings": )" + own + "}";
  };
  const auto mindspore_1_2 = [&](const std::string& mode, bool synchronous) {
    return R"({"common_dump_settings": {)" + common + R"("iteration": 0}, "async_dump_settings": {"enable": true, )" +
           R"("op_debug_mode": )" + mode + "}" + (synchronous ? e2e : "") + "}";
  };
  const auto acl = [&](const std::string& keys) { return R"({"dump": {"dump_path": )" + quoted + keys + "}}"; };
  const auto torchair = [&](const std::string& own) {
    return R"({"dump_config": {"enable_dump": true, "dump_path": )" + quoted + R"(}, "sonde_settings": )" + own + "}";
  };
  const DumpSettings none, overflows{.only_overflows = true}, exceptions{.only_exceptions = true};
  const DumpSettings after{.inputs_after = true}, reread{.reread = true};
  return {
      {"MindSpore, no mode", mindspore(""), none},
      {"MindSpore, mode 0", mindspore(R"(, "op_debug_mode": 0)"), none},
      {"MindSpore, mode 1", mindspore(R"(, "op_debug_mode": 1)"), overflows},
      {"MindSpore, mode 2", mindspore(R"(, "op_debug_mode": 2)"), overflows},
      {"MindSpore, mode 3", mindspore(R"(, "op_debug_mode": 3)"), overflows},
      {"MindSpore, mode 4", mindspore(R"(, "op_debug_mode": 4)"), exceptions},
      {"MindSpore 1.3, mode 2", mindspore(R"(, "op_debug_mode": 2)", R"({"version": "1.3"})"), overflows},
      {"MindSpore 2.0, synchronous", mindspore(R"(, "op_debug_mode": 3)", R"({"version": "2.0"})"), none},
      {"MindSpore 1.2, mode 0", mindspore_1_2("0", false), none},
      {"MindSpore 1.2, mode 1", mindspore_1_2("1", false), overflows},
      {"MindSpore 1.2, mode 2", mindspore_1_2("2", false), overflows},
      {"MindSpore 1.2, mode 3", mindspore_1_2("3", false), overflows},
      {"MindSpore 1.2, synchronous", mindspore_1_2("3", true), none},
      {"CANN, dump_debug off", acl(R"(, "dump_debug": "off", "dump_op_switch": "on")"), none},
      {"CANN, dump_debug on", acl(R"(, "dump_debug": "on")"), overflows},
      {"CANN, exceptions", acl(R"(, "dump_scene": "lite_exception")"), exceptions},
      {"TorchAir", torchair("{}"), none},
      {"TorchAir, reread", torchair(R"({"reread": true})"), reread},
      {"inputs before", mindspore("", R"({"inputs": "before"})"), none},
      {"inputs after", mindspore("", R"({"inputs": "after"})"), after},
      {"reread", mindspore("", R"({"reread": true})"), reread},
      {"not reread", mindspore("", R"({"reread": false})"), none},
  };
}

}  // namespace sonde
