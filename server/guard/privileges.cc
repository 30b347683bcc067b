#include "server/guard/privileges.h"

#include <fmt/format.h>
#include <sys/stat.h>

namespace quarry::server {

std::vector<std::string> NeedlessPrivileges(unsigned user,
                                            const std::vector<std::filesystem::path>& secrets) {
  std::vector<std::string> found;
  if (user == 0)
    found.emplace_back(
        "the server runs as root: whoever finds a hole in it has the whole machine; run it as a user of its "
        "own that cannot write to the data");
  for (const std::filesystem::path& file : secrets) {
    struct stat info;
    if (file.empty() || ::stat(file.c_str(), &info) != 0) continue;
    const char* allowed = (info.st_mode & S_IWOTH) != 0   ? "changed"
                          : (info.st_mode & S_IROTH) != 0 ? "read"
                                                          : nullptr;
    if (allowed == nullptr) continue;
    found.push_back(fmt::format(
        "\"{}\" can be {} by everybody on this machine; chmod 640 it, and give it the group of the "
        "server's user",
        file.string(), allowed));
  }
  return found;
}

}  // namespace quarry::server
