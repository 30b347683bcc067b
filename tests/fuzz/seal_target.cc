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

/// Corrects the checksum as in docs/format.md.
std::string Repair(const std::string& text) {
  nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  const bool has_all = json.is_object() && json.contains("data_file") && json["data_file"].is_string() &&
                       json.contains("bytes") && json["bytes"].is_number_unsigned() &&
                       json.contains("checksum") && json["checksum"].is_string();
  if (!has_all) return text;
  const std::uint64_t checksum = std::strtoull(json["checksum"].get<std::string>().c_str(), nullptr, 16);
  const std::string sealed =
      fmt::format("{} {} {} {}", index::kIndexVersion, json["data_file"].get<std::string>(),
                  json["bytes"].get<std::uint64_t>(), ChecksumText(checksum));
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
  fuzz::Require(
      std::filesystem::path(seal->data_file).filename() == seal->data_file && seal->data_file != "..",
      "a seal names a file of its folder");
  fuzz::Require(index::WriteSeal(folder.path(), *seal).ok(), "a seal that was read can be written");
  const Result<index::Seal> again = index::ReadSeal(folder.path());
  fuzz::Require(again.ok() && again->data_file == seal->data_file && again->bytes == seal->bytes &&
                    again->checksum == seal->checksum,
                "a seal comes back");
  return 0;
}
