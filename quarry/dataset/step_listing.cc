#include "quarry/dataset/step_listing.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "quarry/format/manifest.h"

namespace quarry {
namespace {

/// The steps that have a record in a head or its pages.
Result<std::vector<std::uint64_t>> StepsWithRecords(const Location& root, const format::CatalogueHead& head) {
  std::vector<Result<std::vector<format::StepRecord>>> pages(head.pages.size(),
                                                             std::vector<format::StepRecord>());
  root.storage->AtOnce(pages.size(), [&](std::size_t i) {
    const Location page = root / format::PagePath(head.pages[i].name);
    const Result<Bytes> read = page.ReadWhole(format::kPageLimit);
    pages[i] = read.ok() ? format::DecodePage(*read, head.pages[i]).Annotate(fmt::format("\"{}\"", page))
                         : Result<std::vector<format::StepRecord>>(read.status());
  });
  std::vector<std::uint64_t> steps;
  const auto add = [&](const std::vector<format::StepRecord>& records) {
    for (const format::StepRecord& record : records) steps.push_back(record.summary.step);
  };
  add(head.records);
  for (const auto& page : pages) {
    QUARRY_RETURN_IF_ERROR(page.status());
    add(*page);
  }
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

struct HeadSeen {
  Result<format::CatalogueHead> head = format::CatalogueHead();
  bool is_current = false;  ///< its records need no comparison

  bool publishes() const { return head.ok() && head->publishes && is_current; }
};

HeadSeen LookAtHead(const Location& root) {
  const Location path = root / format::kHeadFile;
  HeadSeen seen;
  const std::array<std::function<void()>, 2> looks = {
      [&] {
        const Result<Bytes> bytes = path.ReadWhole(format::kHeadLimit);
        seen.head = bytes.ok() ? format::DecodeHead(*bytes).Annotate(fmt::format("\"{}\"", path))
                               : Result<format::CatalogueHead>(bytes.status());
      },
      [&] {
        // A look at what is not there might ask for a list.
        seen.is_current = (root / "steps" / format::kCurrentFile).OpenWith(FileEnd::kFront, 1, nullptr).ok();
      }};
  root.storage->AtOnce(looks.size(), [&](std::size_t i) { looks[i](); });
  return seen;
}

/// The steps of a head, where they are taken from there. @errors those of pages of the catalogue
Result<StepListing> ListFromHead(const Location& root, format::CatalogueHead head, bool is_current) {
  StepListing listing;
  listing.catalogue_is_current = is_current;
  listing.steps = format::StepsOf(head.runs);
  if (listing.steps.empty()) {
    QUARRY_ASSIGN_OR_RETURN(listing.steps, StepsWithRecords(root, head));
  }
  listing.head = std::move(head);
  return listing;
}

Result<StepListing> ListNames(const Location& root) {
  const Result<std::vector<FolderEntry>> entries = (root / "steps").List();
  if (entries.status().code() == StatusCode::kNotFound)
    return Status(StatusCode::kDataLoss, entries.status().message());
  if (entries.status().code() == StatusCode::kDataLoss || MayPass(entries.status())) return entries.status();
  if (!entries.ok()) return Status(StatusCode::kInternal, entries.status().message());
  StepListing listing;
  for (const FolderEntry& entry : *entries) {
    if (const std::optional<std::uint64_t> step = format::StepOfFolder(entry.name)) {
      listing.steps.push_back(*step);
    } else if (entry.name == format::kCurrentFile) {
      listing.catalogue_is_current = true;
    }
  }
  std::sort(listing.steps.begin(), listing.steps.end());
  return listing;
}

}  // namespace

Result<StepListing> ListPublished(const Location& root) {
  const bool has_folders = root.storage->has_folders();
  if (has_folders && root.storage->folders_appear_whole()) return ListNames(root);
  HeadSeen seen = LookAtHead(root);
  if (MayPass(seen.head.status())) return seen.head.status();
  // A copy of a directory that other tools have made has a head that does not publish.
  if (has_folders && !seen.publishes()) return ListNames(root);
  if (seen.head.status().code() == StatusCode::kNotFound)
    return InvalidArgument(
        "\"{}\" is missing, from which steps are listed where a server has no lists; run \"quarry upgrade\" "
        "on the dataset, and copy it again",
        root / format::kHeadFile);
  QUARRY_RETURN_IF_ERROR(seen.head.status());
  return ListFromHead(root, *std::move(seen.head), seen.is_current);
}

Result<std::optional<format::CatalogueHead>> PublishingHead(const Location& root) {
  HeadSeen seen = LookAtHead(root);
  if (MayPass(seen.head.status())) return seen.head.status();
  return seen.publishes() ? std::optional(*std::move(seen.head)) : std::nullopt;
}

}  // namespace quarry
