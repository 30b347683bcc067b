#include "tools/quarry/helper_program.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

namespace quarry::tools {

Result<int> BecomeHelper(const std::string& name, const std::string& does) {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program = self.parent_path().parent_path() / "libexec/quarry" / name;
  std::ifstream given("/proc/self/cmdline");
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(given, argument, '\0');) arguments.push_back(argument);
  if (error || arguments.empty())
    return Unavailable("cannot find the program that {}: /proc is not mounted", does);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  ::execv(program.c_str(), pointers.data());
  return Unavailable("cannot run \"{}\", which {}: {}; install Quarry again", program, does,
                     std::strerror(errno));
}

}  // namespace quarry::tools
