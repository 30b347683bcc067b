#include <nlohmann/json.hpp>

#include "quarry/command_line/command_line.h"

namespace quarry::command_line {
namespace {

using Json = nlohmann::ordered_json;

Json ToObject(const OptionDescription& option) {
  return {{"names", option.names},
          {"value", option.value},
          {"required", option.required},
          {"repeated", option.repeated},
          {"choices", option.choices},
          {"limits", option.limits},
          {"environment", option.environment},
          {"group", option.group},
          {"description", option.description}};
}

Json ToObject(const CommandDescription& command) {
  Json object = {{"name", command.name},
                 {"description", command.description},
                 {"footer", command.footer},
                 {"options", Json::array()},
                 {"commands", Json::array()}};
  for (const OptionDescription& option : command.options) object["options"].push_back(ToObject(option));
  for (const CommandDescription& subcommand : command.commands)
    object["commands"].push_back(ToObject(subcommand));
  return object;
}

}  // namespace

std::string ToJson(const CommandDescription& command) { return ToObject(command).dump(2) + "\n"; }

}  // namespace quarry::command_line
