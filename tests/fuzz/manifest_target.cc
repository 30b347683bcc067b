// Hostile text of dataset.json and step.json. The first byte selects which of the two, and whether the
// checksum of the text is corrected.

#include <string>

#include "quarry/format/manifest.h"
#include "quarry/format/step_sections.h"
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

/// A field alone is as in the whole. Any root is read or refused.
void TestSections(const std::string& text, const DatasetDescription& dataset) {
  if (!format::IsInSections(text)) return;
  const Result<StepDescription> whole = format::DecodeStepManifest(text, dataset);
  const Result<std::uint64_t> bytes = format::RootBytes(text);
  if (!bytes.ok()) return;
  const Result<format::StepRoot> root =
      format::DecodeRoot(std::string_view(text).substr(0, *bytes), text.size(), dataset);
  Require(root.ok() || !whole.ok(), "the root of a readable step is readable");
  std::size_t fields = 0;
  for (std::size_t s = 0; root.ok() && s < root->sections.size(); ++s) {
    const format::StepSection& section = root->sections[s];
    const auto read = format::DecodeSection(
        *root, s, std::string_view(text).substr(section.offset, section.bytes), dataset);
    Require(read.ok() || !whole.ok(), "so is each section");
    for (std::size_t f = 0; read.ok() && whole.ok() && f < read->size(); ++f)
      Require((*read)[f].name == whole->fields[fields++].name, "sections have the fields of the step");
  }
  Require(!whole.ok() || fields == whole->fields.size(), "and no others");
}

}  // namespace
}  // namespace quarry::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quarry;
  if (size == 0) return 0;
  const unsigned form = data[0];
  std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if ((form & fuzz::kRepair) != 0) {
    fuzz::RepairSections(&text);
    fuzz::RepairManifest(&text);
  }
  if ((form & fuzz::kStep) != 0) {
    static const DatasetDescription dataset = fuzz::ManifestDataset();
    fuzz::TestSections(text, dataset);
    fuzz::TestText(text, [](const std::string& step) { return format::DecodeStepManifest(step, dataset); });
  } else {
    fuzz::TestText(text, [](const std::string& dataset) { return format::DecodeDatasetManifest(dataset); });
  }
  return 0;
}
