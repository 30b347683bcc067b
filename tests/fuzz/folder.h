#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/fuzz/fuzz_target.h"

namespace quarry::fuzz {

/// A folder of this process, in memory if there is such a file system.
class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::is_directory("/dev/shm")
                           ? "/dev/shm"
                           : std::filesystem::temp_directory_path().string();
    name += "/quarry-fuzz-XXXXXX";
    Require(::mkdtemp(name.data()) != nullptr, "a folder can be made");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace quarry::fuzz
