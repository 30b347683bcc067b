#include "quarry/index/seal.h"

#include <functional>
#include <nlohmann/json.hpp>

#include "quarry/base/checksum.h"
#include "quarry/base/file.h"
#include "quarry/index/records.h"

namespace quarry::index {

namespace fs = std::filesystem;

namespace {

constexpr const char* kSealFile = "seal.json";
constexpr std::size_t kChunk = 4 << 20;

/// Checksum of the seal's own text, so that a flipped bit in a name or number is not mistaken for another
/// index.
std::string SelfChecksum(const Seal& seal) {
  const std::string text =
      fmt::format("{} {} {} {}", kIndexVersion, seal.data_file, seal.bytes, ChecksumText(seal.checksum));
  return ChecksumText(Checksum(std::as_bytes(std::span(text))));
}

}  // namespace

Status ForEachChunk(const StoredObject& file, const std::function<Status(ByteSpan)>& visit) {
  Bytes chunk;
  for (std::uint64_t offset = 0; offset < file.size(); offset += chunk.size()) {
    chunk.resize(std::min<std::uint64_t>(kChunk, file.size() - offset));
    QUARRY_RETURN_IF_ERROR(file.ReadAt(offset, chunk));
    QUARRY_RETURN_IF_ERROR(visit(chunk));
  }
  return Status::Ok();
}

Result<Seal> ReadSeal(const Location& folder) {
  const Location path = folder / kSealFile;
  const Result<Bytes> read = path.ReadWhole(1 << 20);
  if (read.status().code() == StatusCode::kNotFound)
    return NotFound("there is no index in \"{}\"; run quarry-index", folder);
  if (!read.ok()) return StatusOfPart(read.status(), path, "");
  const Bytes& bytes = *read;
  const Status damaged = DataLoss("index \"{}\" is damaged; run quarry-index with --rebuild", path);
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const nlohmann::json json =
      nlohmann::json::parse(text, text + bytes.size(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("data_file") || !json["data_file"].is_string() ||
      !json.contains("bytes") || !json["bytes"].is_number_unsigned() || !json.contains("checksum") ||
      !json["checksum"].is_string() || !json.contains("seal") || !json["seal"].is_string()) {
    return damaged;
  }
  if (json.contains("version") && json["version"].is_number_unsigned() && json["version"] != kIndexVersion) {
    return DataLoss("index \"{}\" has version {}, this program uses {}; run quarry-index to build it anew",
                    path, json["version"].get<std::uint64_t>(), kIndexVersion);
  }
  Seal seal;
  seal.data_file = json["data_file"].get<std::string>();
  seal.bytes = json["bytes"].get<std::uint64_t>();
  seal.checksum = std::strtoull(json["checksum"].get<std::string>().c_str(), nullptr, 16);
  if (json["seal"].get<std::string>() != SelfChecksum(seal)) return damaged;
  if (!seal.data_file.starts_with("patches-") || seal.data_file.find('/') != std::string::npos)
    return damaged;
  return seal;
}

Status WriteSeal(const fs::path& folder, const Seal& seal) {
  auto json = nlohmann::ordered_json::object();  // a null that becomes one does not survive that memory ends
  json["version"] = kIndexVersion;
  json["data_file"] = seal.data_file;
  json["bytes"] = seal.bytes;
  json["checksum"] = ChecksumText(seal.checksum);
  json["seal"] = SelfChecksum(seal);
  const std::string text = json.dump(1) + "\n";
  return ReplaceFile(folder / kSealFile, std::as_bytes(std::span(text)));
}

Result<Seal> SealFile(const fs::path& path) {
  QUARRY_ASSIGN_OR_RETURN(const auto file, Location(path).Open());
  StreamingChecksum checksum;
  QUARRY_RETURN_IF_ERROR(ForEachChunk(*file, [&](ByteSpan chunk) {
    checksum.Update(chunk);
    return Status::Ok();
  }));
  return Seal{path.filename().string(), file->size(), checksum.Finish()};
}

Status CopySealedFile(const Location& folder, const Seal& seal, const fs::path& copy) {
  const Location path = folder / seal.data_file;
  const Result<std::shared_ptr<const StoredObject>> opened = path.Open();
  if (!opened.ok())
    return DataLoss(
        "index \"{}\" cannot be opened, though seal.json names it; run quarry-index with --rebuild", path);
  const StoredObject& file = **opened;
  if (file.size() != seal.bytes) {
    return DataLoss("index \"{}\" has {} bytes, sealed were {}; run quarry-index with --rebuild", path,
                    file.size(), seal.bytes);
  }
  QUARRY_ASSIGN_OR_RETURN(WritableFile out, WritableFile::Create(copy));
  StreamingChecksum checksum;
  QUARRY_RETURN_IF_ERROR(ForEachChunk(file, [&](ByteSpan chunk) {
    checksum.Update(chunk);
    return out.Append(chunk);
  }));
  if (checksum.Finish() != seal.checksum) {
    return DataLoss("index \"{}\": checksum {} sealed, {} computed; run quarry-index with --rebuild", path,
                    ChecksumText(seal.checksum), ChecksumText(checksum.Finish()));
  }
  return Status::Ok();
}

}  // namespace quarry::index
