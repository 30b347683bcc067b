#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "quarry/base/status.h"

namespace quarry::index {

/// LMDB trusts its file: a damaged one can crash whoever maps it. So the index folder holds a small seal.json
/// that names the one valid data file, its size and its checksum; a data file is opened only after it was
/// compared with the seal. Replacing seal.json is also how a new index appears: in one moment, while readers
/// keep the file they have.
struct Seal {
  std::string data_file;  ///< name in the index folder
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;
};

/// @errors kNotFound: there is no index; kDataLoss: the seal is damaged
Result<Seal> ReadSeal(const std::filesystem::path& folder);
Status WriteSeal(const std::filesystem::path& folder, const Seal& seal);

/// Size and checksum of a file.
Result<Seal> SealFile(const std::filesystem::path& path);

/// Copies the sealed data file to `copy`, comparing what was copied with the seal. The copy is what gets
/// mapped: nobody else can change it.
/// @errors kDataLoss: the file is not the one that was sealed
Status CopySealedFile(const std::filesystem::path& folder, const Seal& seal,
                      const std::filesystem::path& copy);

}  // namespace quarry::index
