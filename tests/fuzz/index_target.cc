// Hostile indices behind seals that hold, over the golden dataset. The first byte says what follows: the file
// of the index, or changes to a good one, each a place (u32) and eight bytes; and what is done with it.

#include <filesystem>
#include <fstream>

#include "quarry/base/checksum.h"
#include "quarry/format/description_rules.h"
#include "quarry/index/index_locator.h"
#include "quarry/index/index_writer.h"
#include "quarry/index/seal.h"
#include "tests/fuzz/ask_everything.h"
#include "tests/fuzz/folder.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/memory_storage.h"

namespace quarry::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kChanges = 1;
constexpr unsigned kUpdate = 2;
constexpr unsigned kAsk = 4;
constexpr unsigned kVerify = 8;
constexpr unsigned kKnown = 16;
constexpr std::size_t kChangeSize = 12;

void Nothing(std::uint64_t, std::uint64_t) {}

/// The golden dataset in memory, and its index.
struct Golden {
  Golden() {
    const auto memory = std::make_shared<testing::MemoryStorage>();
    Require(memory->CopyFolder(fs::path(QUARRY_GOLDEN) / "golden.quarry", "a.quarry").ok(),
            "there is a dataset");
    const Location location(memory, "a.quarry");
    const fs::path built = folder.path() / "built";
    Require(index::UpdateIndex(**Dataset::Open(location), built, false, Nothing).ok(),
            "an index can be made");
    seal = *index::ReadSeal(built);
    Require(seal.pieces.size() == 1, "a small index is one piece");
    data = *Location(built / seal.pieces[0].file_name()).ReadWhole(1 << 30);
    dataset = *Dataset::Open(location);
  }
  const Folder folder;
  std::shared_ptr<const Dataset> dataset;
  index::Seal seal;
  Bytes data;
};

Bytes Changed(Bytes data, ByteSpan changes) {
  for (; changes.size() >= kChangeSize; changes = changes.subspan(kChangeSize)) {
    const std::size_t at = GetLittleEndian<std::uint32_t>(changes.data()) % (data.size() - 8);
    std::copy_n(changes.begin() + 4, 8, data.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return data;
}

/// Makes these bytes the index in a local folder.
/// @param known  an update finds the steps as they were, and takes their records over, as most of the piece
/// is waste; else it compares them one by one
void Seal(const Bytes& data, index::Seal seal, bool known, const fs::path& folder) {
  index::SealedPiece& piece = seal.pieces[0];
  piece.checksum = Checksum(data);
  piece.bytes = data.size();
  if (known)
    piece.steps = 1000;
  else
    ++piece.ranges[0].marks;
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  fs::create_directory(folder, ignored);
  std::ofstream(folder / piece.file_name(), std::ios::binary)
      .write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
  Require(index::WriteSeal(folder, seal).ok(), "a seal can be written");
}

/// The patches of some boxes of every field: whatever the index says, there are as many as positions.
void FindAll(const index::IndexLocator& locator, const Dataset& dataset) {
  const DatasetDescription& description = dataset.description();
  const PatchGrid grid = *PatchesOf(description.grids[0]);
  for (const std::uint64_t step : dataset.steps()) {
    for (std::size_t field = 0; field < description.fields.size(); ++field) {
      for (const Box& positions : {Box{{0, 0, 0}, grid.patches()}, Box{{1, 0, 0}, {2, 1, 1}}}) {
        const auto found = locator.Find(step, field, positions);
        const bool there = (*dataset.Step(step))->FindField(description.fields[field].name) != nullptr;
        Require(found.ok() == there && (!there || std::ssize(*found) == positions.volume()),
                "what the index does not have is in the tables");
        Require(locator.FindMask(step, field, positions).ok() == there, "so are masks");
      }
    }
  }
}

void TestIndex(ByteSpan input) {
  static const Golden golden;
  if (input.empty()) return;
  const auto form = std::to_integer<unsigned>(input[0]);
  input = input.subspan(1);
  const Bytes data = (form & kChanges) != 0 ? Changed(golden.data, input) : Bytes(input.begin(), input.end());
  const fs::path folder = golden.folder.path() / "index";
  Seal(data, golden.seal, (form & kKnown) != 0, folder);
  const auto locator = index::IndexLocator::Open(golden.dataset, folder, golden.folder.path());
  Require(locator.ok(), "a seal that holds is read");
  FindAll(**locator, *golden.dataset);
  if ((form & kAsk) != 0) {
    auto opened = std::make_shared<OpenedDataset>();
    opened->name = "a";
    opened->dataset = golden.dataset;
    opened->index = *locator;
    AskEverything(opened, std::make_shared<PatchStore>(kAskMemory));
  }
  if ((form & kVerify) != 0) {
    const Status verified = index::VerifyIndex(*golden.dataset, folder);
    Require(verified.ok() || verified.code() == StatusCode::kDataLoss ||
                verified.code() == StatusCode::kFailedPrecondition,
            "a hostile index is damaged or another one");
  }
  if ((form & kUpdate) == 0) return;
  Require(index::UpdateIndex(*golden.dataset, folder, false, Nothing).ok(), "an index is built anew");
}

}  // namespace
}  // namespace quarry::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  quarry::fuzz::TestIndex(std::as_bytes(std::span(data, size)));
  return 0;
}
