// Hostile text of the index's seal.json. The first byte says whether its own checksum is corrected.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "quarry/base/checksum.h"
#include "quarry/index/records.h"
#include "quarry/index/seal.h"
#include "tests/fuzz/folder.h"
#include "tests/fuzz/fuzz_target.h"

namespace quarry::fuzz {
namespace {

/// The member of an object as text, or nothing.
std::string TextOf(const nlohmann::json& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) return {};
  const nlohmann::json& member = object[key];
  return member.is_string() ? member.get<std::string>()
                            : member.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Corrects the checksum as in docs/format.md.
std::string Repair(const std::string& text) {
  nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("pieces")) return text;
  std::string sealed = std::to_string(index::kIndexVersion);
  for (const nlohmann::json& piece : json["pieces"]) {
    for (const char* key : {"checksum", "bytes", "steps"}) sealed += " " + TextOf(piece, key);
    if (!piece.is_object() || !piece.contains("ranges")) continue;
    for (const nlohmann::json& range : piece["ranges"])
      for (const char* key : {"first", "last", "steps", "marks"}) sealed += " " + TextOf(range, key);
  }
  json["seal"] = ChecksumText(Checksum(std::as_bytes(std::span(sealed))));
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace
}  // namespace quarry::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quarry;
  static const fuzz::Folder folder;
  if (size == 0) return 0;
  std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if ((data[0] & 1) != 0) text = fuzz::Repair(text);
  std::ofstream(folder.path() / "seal.json", std::ios::binary) << text;
  const Result<index::Seal> seal = index::ReadSeal(folder.path());
  if (!seal.ok()) {
    fuzz::Require(seal.status().code() == StatusCode::kDataLoss, "an error of a hostile seal is kDataLoss");
    return 0;
  }
  std::size_t ranges = 0;
  for (const index::SealedPiece& piece : seal->pieces) ranges += piece.ranges.size();
  fuzz::Require(ranges <= index::kMostRanges, "the ranges of a seal have a bound");
  fuzz::Require(index::WriteSeal(folder.path(), *seal).ok(), "a seal that was read can be written");
  const Result<index::Seal> again = index::ReadSeal(folder.path());
  fuzz::Require(again.ok() && *again == *seal, "a seal comes back");
  return 0;
}
