#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "quarry/base/status.h"
#include "tools/quarry/verify.h"

namespace quarry::tools {

/// Becomes quarry-verify, with the same arguments: ../libexec/quarry from here, in an installation as in a
/// build.
Result<int> VerifyAgainst(VerifyOptions /*options*/) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string verifier = self.parent_path().parent_path() / "libexec/quarry/quarry-verify";
  std::ifstream given("/proc/self/cmdline");
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(given, argument, '\0');) arguments.push_back(argument);
  if (error || arguments.empty())
    return Unavailable("cannot find the program that compares with source files: /proc is not mounted");
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  ::execv(verifier.c_str(), pointers.data());
  return Unavailable("cannot run \"{}\", which compares datasets with source files: {}; install Quarry again",
                     verifier, std::strerror(errno));
}

}  // namespace quarry::tools
