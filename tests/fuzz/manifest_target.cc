// Hostile text of dataset.json and step.json. The first byte selects which of the two, and whether the
// checksum of the text is corrected.

#include <string>

#include "quarry/format/manifest.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/manifest_input.h"
#include "tests/fuzz/repair.h"

namespace quarry::fuzz {
namespace {

constexpr unsigned kStep = 1;
constexpr unsigned kRepair = 2;

/// A readable manifest can be written, and reads back the same.
template <typename Decode>
void TestText(const std::string& text, Decode decode) {
  const auto description = decode(text);
  if (!description.ok()) {
    Require(description.status().code() == StatusCode::kDataLoss, "an error of hostile text is kDataLoss");
    return;
  }
  const std::string again = format::EncodeManifest(*description);
  const auto decoded = decode(again);
  Require(decoded.ok(), "a manifest that was read can be written");
  Require(format::EncodeManifest(*decoded) == again, "a manifest comes back");
}

}  // namespace
}  // namespace quarry::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quarry;
  if (size == 0) return 0;
  const unsigned form = data[0];
  std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if ((form & fuzz::kRepair) != 0) fuzz::RepairManifest(&text);
  if ((form & fuzz::kStep) != 0) {
    static const DatasetDescription dataset = fuzz::ManifestDataset();
    fuzz::TestText(text, [](const std::string& step) { return format::DecodeStepManifest(step, dataset); });
  } else {
    fuzz::TestText(text, [](const std::string& dataset) { return format::DecodeDatasetManifest(dataset); });
  }
  return 0;
}
