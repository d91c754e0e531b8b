#include "sonde/configuration.h"

#include <algorithm>
#include <numeric>

#include "contract/setting_keys.h"
#include "ground/base/json.h"
#include "plan/config/mindspore_keys.h"
#include "plan/config/plan.h"

namespace sonde {
namespace {}  // namespace

std::string text_of(const Configuration& configuration) {
  std::vector<std::uint32_t> devices(configuration.devices);
  std::iota(devices.begin(), devices.end(), 0U);
  const std::string path = configuration.path.string();
  const bool is_own = configuration.saved_data == "graph" || configuration.saved_data == "summary";
  Json common = {{keys::op_debug_mode, 0}, {keys::dump_mode, configuration.kernels.empty() ? 0 : 1}};
  const bool is_plain = std::ranges::all_of(path, is_path_character);
  if (is_plain) common[keys::path] = path;
  common[keys::net_name] = configuration.net_name;
  common[keys::iteration] = configuration.iteration;
  if (!is_own) common[keys::saved_data] = configuration.saved_data;
  common[keys::input_output] = 0;
  common[keys::kernels] = configuration.kernels;
  common[keys::support_device] = devices;
  if (!configuration.statistics.empty()) common[keys::statistic_category] = configuration.statistics;
  if (configuration.initial_iteration != 0) common[keys::initial_iteration] = configuration.initial_iteration;
  Json own = Json::object();
  if (!is_plain) own[keys::path] = path;
  if (is_own) own[keys::saved_data] = configuration.saved_data;
  if (!configuration.requests.empty()) own[keys::requests] = configuration.requests;
  if (configuration.reread) own[keys::reread] = true;
  Json all = {{keys::common_dump_settings, common},
              {keys::e2e_dump_settings, {{keys::enable, true}, {keys::trans_flag, true}}}};
  if (!own.empty()) all[keys::sonde_settings] = own;
  return text_of_json(all, 2) + "\n";
}

std::filesystem::path dump_path_of(const std::string& configuration) {
  const PlanResult result = parse_plan(configuration, "");
  return result.plan ? result.plan->path : std::filesystem::path();
}

}  // namespace sonde
