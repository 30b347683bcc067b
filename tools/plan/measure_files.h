#pragma once

#include <cstdint>
#include <filesystem>
#include <utility>

#include "quarry/base/file.h"
#include "writer/model/machine.h"

/// Costs of files that are written and read as the writer does.
namespace quarry::plan {

/// A folder that is removed with its contents.
class ScratchFolder {
 public:
  static Result<ScratchFolder> Create(const std::filesystem::path& directory) {
    std::error_code error;
    if (!std::filesystem::is_directory(directory, error))
      return NotFound("there is no directory \"{}\" for --dir; create it first", directory.string());
    std::string name = (directory / ".quarry-calibrate-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) return ErrnoStatus(errno, "create", name);
    return ScratchFolder(name);
  }
  ~ScratchFolder() {
    if (!path_.empty()) (void)RemoveTree(path_);
  }
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchFolder& operator=(ScratchFolder&&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  explicit ScratchFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

Status MeasureWriting(const std::filesystem::path& folder, std::uint64_t bytes, int cores,
                      model::Machine* machine);

/// Reads `folder`/one, in as many parts as there are threads.
Result<double> MeasureReading(const std::filesystem::path& folder, int threads, bool cold);

}  // namespace quarry::plan
