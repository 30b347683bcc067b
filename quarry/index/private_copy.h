#pragma once

#include <filesystem>

#include "quarry/base/endian.h"
#include "quarry/index/seal.h"

namespace quarry::index {

/// A copy of a piece of an index, compared with the seal, that no other process can change or cut.
class PrivateCopy {
 public:
  /// A file without a name, mapped.
  /// @param path  of the copy, for as long as it has a name
  /// @errors those of ReadSealedPiece; kInternal: there is no space, or it cannot be mapped
  static Result<PrivateCopy> Map(const Location& folder, const SealedPiece& piece,
                                 const std::filesystem::path& path);
  /// In memory, for a small piece. @errors those of ReadSealedPiece
  static Result<PrivateCopy> Load(const Location& folder, const SealedPiece& piece);
  ~PrivateCopy();
  PrivateCopy(PrivateCopy&& other) noexcept;
  PrivateCopy& operator=(PrivateCopy&&) = delete;

  ByteSpan bytes() const { return mapped_.empty() ? ByteSpan(loaded_) : mapped_; }

 private:
  PrivateCopy(ByteSpan mapped, Bytes loaded) : mapped_(mapped), loaded_(std::move(loaded)) {}

  ByteSpan mapped_;
  Bytes loaded_;
};

}  // namespace quarry::index
