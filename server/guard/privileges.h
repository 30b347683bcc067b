#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace quarry::server {

/// Privileges of the process and its files that a server does not need, one line for each, with the remedy.
/// @param user     the effective user of the process; 0: root
/// @param secrets  files of keys and tokens; empty names, and files that are not there, are passed by
std::vector<std::string> NeedlessPrivileges(unsigned user, const std::vector<std::filesystem::path>& secrets);

}  // namespace quarry::server
