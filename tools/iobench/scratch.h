#pragma once

#include <mpi.h>

#include <filesystem>

#include "quarry/base/status.h"

namespace quarry::iobench {

/// A new folder that all ranks write to, removed at the end with everything in it.
class Scratch {
 public:
  /// Makes quarry-iobench-XXXXXX in `directory`, which must exist.
  /// @errors kNotFound, kInternal; the same on every rank
  /// @collective
  static Result<Scratch> Create(MPI_Comm comm, const std::filesystem::path& directory, bool keep);

  /// Removes the folder: on rank 0, when the others are done with it; on a rank that an exception ends,
  /// because that ends the others.
  ~Scratch();
  Scratch(Scratch&& other) noexcept;
  Scratch(const Scratch&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  Scratch(std::filesystem::path path, bool removes, bool keep)
      : path_(std::move(path)), removes_(removes), keep_(keep) {}

  std::filesystem::path path_;
  bool removes_;
  bool keep_;
};

}  // namespace quarry::iobench
