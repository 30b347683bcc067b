#include "quarry/index/seal.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "quarry/base/checksum.h"
#include "quarry/base/file.h"
#include "quarry/index/records.h"

namespace quarry::index {

namespace fs = std::filesystem;

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kSealFile = "seal.json";
constexpr std::size_t kSealLimit = 1 << 20;
constexpr std::size_t kChunk = 4 << 20;

/// Checksum of the seal's own values, so that a flipped bit in a number is not mistaken for another index.
std::string SelfChecksum(const Seal& seal) {
  std::string text = std::to_string(kIndexVersion);
  for (const SealedPiece& piece : seal.pieces) {
    text += fmt::format(" {} {} {}", ChecksumText(piece.checksum), piece.bytes, piece.steps);
    for (const SealedRange& range : piece.ranges)
      text += fmt::format(" {} {} {} {}", range.first, range.last, range.steps, ChecksumText(range.marks));
  }
  return ChecksumText(Checksum(std::as_bytes(std::span(text))));
}

/// Takes the members of an object; whether all of them were there and had their types.
class Members {
 public:
  explicit Members(const json& object) : object_(object) {}

  std::uint64_t Number(const char* key) {
    const json* const member = Find(key);
    if (member != nullptr && member->is_number_unsigned()) return member->get<std::uint64_t>();
    good_ = false;
    return 0;
  }
  std::uint64_t Checksum(const char* key) {
    const json* const member = Find(key);
    const std::string text = member != nullptr && member->is_string() ? member->get<std::string>() : "";
    const std::uint64_t checksum = std::strtoull(text.c_str(), nullptr, 16);
    good_ = good_ && ChecksumText(checksum) == text;
    return checksum;
  }
  const json& Array(const char* key) {
    static const auto& none = *new const json(json::array());
    const json* const member = Find(key);
    if (member != nullptr && member->is_array()) return *member;
    good_ = false;
    return none;
  }
  bool good() const { return good_; }

 private:
  const json* Find(const char* key) const {
    if (!object_.is_object()) return nullptr;
    const auto found = object_.find(key);
    return found == object_.end() ? nullptr : &*found;
  }

  const json& object_;
  bool good_ = true;
};

/// @returns nothing if it is not a seal
std::optional<Seal> SealIn(const json& object) {
  Seal seal;
  Members members(object);
  for (const json& of_piece : members.Array("pieces")) {
    Members in_piece(of_piece);
    SealedPiece& piece = seal.pieces.emplace_back();
    piece.checksum = in_piece.Checksum("checksum");
    piece.bytes = in_piece.Number("bytes");
    piece.steps = in_piece.Number("steps");
    for (const json& of_range : in_piece.Array("ranges")) {
      Members in_range(of_range);
      SealedRange& range = piece.ranges.emplace_back();
      range = {in_range.Number("first"), in_range.Number("last"), in_range.Number("steps"),
               in_range.Checksum("marks")};
      if (!in_range.good()) return std::nullopt;
    }
    if (!in_piece.good()) return std::nullopt;
  }
  if (members.Checksum("seal"), !members.good()) return std::nullopt;
  return object["seal"] == SelfChecksum(seal) ? std::optional(std::move(seal)) : std::nullopt;
}

/// Whether every step is in one range at most.
bool HasOrder(const Seal& seal) {
  std::vector<SealedRange> ranges;
  for (const SealedPiece& piece : seal.pieces)
    ranges.insert(ranges.end(), piece.ranges.begin(), piece.ranges.end());
  if (ranges.size() > kMostRanges) return false;
  std::ranges::sort(ranges, {}, &SealedRange::first);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const SealedRange& range = ranges[i];
    if (range.last < range.first || range.steps == 0 || range.steps - 1 > range.last - range.first)
      return false;
    if (i > 0 && range.first <= ranges[i - 1].last) return false;
  }
  return true;
}

ordered_json ToJson(const SealedPiece& piece) {
  auto ranges = ordered_json::array();
  for (const SealedRange& range : piece.ranges) {
    auto one = ordered_json::object();
    one["first"] = range.first;
    one["last"] = range.last;
    one["steps"] = range.steps;
    one["marks"] = ChecksumText(range.marks);
    ranges.push_back(std::move(one));
  }
  auto object = ordered_json::object();
  object["checksum"] = ChecksumText(piece.checksum);
  object["bytes"] = piece.bytes;
  object["steps"] = piece.steps;
  object["ranges"] = std::move(ranges);
  return object;
}

}  // namespace

std::string SealedPiece::file_name() const { return fmt::format("patches-{}.mdb", ChecksumText(checksum)); }

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
  const Result<Bytes> read = path.ReadWhole(kSealLimit);
  if (read.status().code() == StatusCode::kNotFound)
    return NotFound("there is no index in \"{}\"; run quarry-index", folder);
  if (!read.ok()) return StatusOfPart(read.status(), path, "");
  const auto* text = reinterpret_cast<const char*>(read->data());
  const json parsed = json::parse(text, text + read->size(), nullptr, /*allow_exceptions=*/false);
  if (Members members(parsed); members.Number("version") != kIndexVersion && members.good()) {
    return DataLoss("index \"{}\" has version {}, this program uses {}; run quarry-index to build it anew",
                    path, parsed["version"].get<std::uint64_t>(), kIndexVersion);
  }
  std::optional<Seal> seal = SealIn(parsed);
  if (!seal || !HasOrder(*seal))
    return DataLoss("index \"{}\" is damaged; run quarry-index with --rebuild", path);
  return *std::move(seal);
}

Status WriteSeal(const fs::path& folder, const Seal& seal) {
  auto pieces = ordered_json::array();
  for (const SealedPiece& piece : seal.pieces) pieces.push_back(ToJson(piece));
  auto object = ordered_json::object();  // a null that becomes one does not survive that memory ends
  object["version"] = kIndexVersion;
  object["pieces"] = std::move(pieces);
  object["seal"] = SelfChecksum(seal);
  const std::string text = object.dump(1) + "\n";
  return ReplaceFile(folder / kSealFile, std::as_bytes(std::span(text)));
}

Result<SealedPiece> SealFile(const fs::path& path) {
  QUARRY_ASSIGN_OR_RETURN(const auto file, Location(path).Open());
  StreamingChecksum checksum;
  QUARRY_RETURN_IF_ERROR(ForEachChunk(*file, [&](ByteSpan chunk) {
    checksum.Update(chunk);
    return Status::Ok();
  }));
  SealedPiece piece;
  piece.bytes = file->size();
  piece.checksum = checksum.Finish();
  return piece;
}

Status ReadSealedPiece(const Location& folder, const SealedPiece& piece,
                       const std::function<Status(ByteSpan)>& visit) {
  const Location path = folder / piece.file_name();
  const Result<std::shared_ptr<const StoredObject>> opened = path.Open();
  if (!opened.ok())
    return DataLoss(
        "index \"{}\" cannot be opened, though seal.json names it; run quarry-index with --rebuild", path);
  const StoredObject& file = **opened;
  if (file.size() != piece.bytes) {
    return DataLoss("index \"{}\" has {} bytes, sealed were {}; run quarry-index with --rebuild", path,
                    file.size(), piece.bytes);
  }
  StreamingChecksum checksum;
  QUARRY_RETURN_IF_ERROR(ForEachChunk(file, [&](ByteSpan chunk) {
    checksum.Update(chunk);
    return visit(chunk);
  }));
  if (checksum.Finish() != piece.checksum) {
    return DataLoss("index \"{}\": checksum {} sealed, {} computed; run quarry-index with --rebuild", path,
                    ChecksumText(piece.checksum), ChecksumText(checksum.Finish()));
  }
  return Status::Ok();
}

}  // namespace quarry::index
