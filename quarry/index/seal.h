#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "quarry/storage/location.h"

namespace quarry::index {

/// The index folder holds a small seal.json that names the one valid data file, its size and its checksum; a
/// data file is used only after a comparison with the seal. It shows accidents, and no intent: anybody who
/// can write the folder can write a seal. Replacing seal.json also publishes a new index atomically, while
/// readers keep the file they have.
struct Seal {
  std::string data_file;  ///< name in the index folder
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;
};

/// @errors kNotFound: there is no index; kDataLoss: the seal is damaged
Result<Seal> ReadSeal(const Location& folder);
Status WriteSeal(const std::filesystem::path& folder, const Seal& seal);

/// Size and checksum of a local file.
Result<Seal> SealFile(const std::filesystem::path& path);

/// Feeds a file to `visit` in pieces. @errors those of StoredObject::ReadAt and `visit`
Status ForEachChunk(const StoredObject& file, const std::function<Status(ByteSpan)>& visit);

/// Copies the sealed data file to the local file `copy`, and compares the copy with the seal. The copy is the
/// file that is mapped: no other process can change it.
/// @errors kDataLoss: the file is not the sealed one
Status CopySealedFile(const Location& folder, const Seal& seal, const std::filesystem::path& copy);

}  // namespace quarry::index
