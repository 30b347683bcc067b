#include "server/dataset_lists.h"

#include <algorithm>

#include "quarry/format/proto_convert.h"
#include "quarry/pack/packed_steps.h"

namespace quarry::server {

namespace pb = ::quarry::v1;

namespace {

/// A client asks for the next page of a list for so long after the search, or as long as the search took.
constexpr auto kKeptForPages = std::chrono::seconds(60);
/// [bytes] of the summaries of a list.
constexpr std::uint64_t kMostKept = 8 << 20;
/// Datasets that are opened between two looks at the size of the page.
constexpr std::size_t kAtOnce = 32;

/// A list does not need the index, and most datasets of many rest.
pb::DatasetSummary SummaryOf(const FoundDataset& found, const std::shared_ptr<PatchStore>& store,
                             const std::function<bool()>& cancelled) {
  pb::DatasetSummary summary;
  summary.set_name(found.name);
  const auto dataset = Dataset::Open(WithPacks(found.location, PackedSteps::State::kRests), store, cancelled);
  if (!dataset.ok()) return summary;
  for (const GridDescription& grid : (*dataset)->description().grids) {
    pb::Grid* const shown = summary.add_grids();
    *shown = format::ToProto(grid);
    shown->clear_axis_attributes();  // a list is short
  }
  summary.set_steps((*dataset)->steps().size());
  summary.set_fields((*dataset)->description().fields.size());
  return summary;
}

pb::DatasetSummary Late(const std::string& name) {
  pb::DatasetSummary summary;
  summary.set_name(name);
  summary.set_late(true);
  return summary;
}

}  // namespace

Result<pb::ListDatasetsResponse> DatasetLists::Page(List* list, const ListPage& page, const Allowed& allowed,
                                                    const Cancelled& cancelled) {
  const std::vector<FoundDataset>& found = list->found->datasets;
  auto first = found.begin();
  if (!page.after.empty())
    first = std::upper_bound(first, found.end(), page.after,
                             [](const std::string& after, const FoundDataset& d) { return after < d.name; });
  auto number = static_cast<std::size_t>(first - found.begin());
  const auto skip = [&] {
    while (number < found.size() && !allowed(found[number].name)) ++number;
  };
  pb::ListDatasetsResponse response;
  const auto left = [&] { return page.most - static_cast<std::size_t>(response.datasets_size()); };
  std::size_t bytes = 0;
  Patience patience{catalog_->options().patience, cancelled};
  skip();
  while (number < found.size() && left() > 0 && bytes < page.most_bytes) {
    std::vector<std::size_t> numbers;
    for (; number < found.size() && numbers.size() < std::min(left(), kAtOnce); ++number, skip())
      numbers.push_back(number);
    QUARRY_ASSIGN_OR_RETURN(const std::vector<Summary> summaries, Summarize(list, numbers, &patience));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (bytes >= page.most_bytes) {
        number = numbers[i];
        break;
      }
      *response.add_datasets() = *summaries[i];
      bytes += summaries[i]->ByteSizeLong();
    }
  }
  if (number < found.size()) response.set_next_page_token(response.datasets().rbegin()->name());
  return response;
}

void DatasetLists::Forget() {
  const std::lock_guard lock(mutex_);
  last_ = nullptr;
}

Result<std::shared_ptr<DatasetLists::List>> DatasetLists::Find(const ListPage& page,
                                                               const Cancelled& cancelled) {
  const Clock::time_point begin = Clock::now();
  {
    const std::lock_guard lock(mutex_);
    if (last_ && begin < (page.after.empty() ? last_->holds_until : last_->pages_until)) return last_;
  }
  auto list = std::make_shared<List>();
  QUARRY_ASSIGN_OR_RETURN(list->found, catalog_->List(cancelled));
  const Clock::time_point now = Clock::now();
  const std::lock_guard lock(mutex_);
  if (last_ && last_->found == list->found) return last_;  // another call waited for the same search
  list->begun = begin;
  list->spent = now - begin;
  list->pages_until = now + std::max<Clock::duration>(kKeptForPages, list->spent);
  Hold(list.get(), now);
  last_ = list;
  return list;
}

/// Lists that begin get this one for as long as it has taken: making lists takes half of the time at most. A
/// client that asks for its pages slowly does not make it last longer.
void DatasetLists::Hold(List* list, Clock::time_point now) const {
  if (!list->found->incomplete.ok()) return;
  const auto longest = std::chrono::duration_cast<Clock::duration>(catalog_->options().longest_kept);
  list->holds_until = std::min(now, list->begun + list->spent) + std::min(list->spent, longest);
}

/// Opens the datasets that are not known from an earlier page.
Result<std::vector<DatasetLists::Summary>> DatasetLists::Summarize(List* list,
                                                                   std::span<const std::size_t> numbers,
                                                                   Patience* patience) {
  const Clock::time_point begin = Clock::now();
  std::vector<Summary> summaries(numbers.size());
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      if (const auto known = list->summaries.find(numbers[i]); known != list->summaries.end())
        summaries[i] = known->second;
    }
  }
  std::vector<FoundDataset> unknown;
  std::vector<Location> places;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (summaries[i]) continue;
    unknown.push_back(list->found->datasets[numbers[i]]);
    places.push_back(unknown.back().location);
  }
  if (unknown.empty()) return summaries;
  const auto look = [unknown, store = catalog_->options().store](std::size_t number, const LookEnded& ended) {
    return SummaryOf(unknown[number], store, ended);
  };
  QUARRY_ASSIGN_OR_RETURN(std::vector<std::optional<pb::DatasetSummary>> seen,
                          LookAtEach<pb::DatasetSummary>(std::move(places), look, patience));
  std::size_t next = 0;
  for (Summary& summary : summaries) {
    if (summary) continue;
    const std::size_t number = next++;
    summary = std::make_shared<const pb::DatasetSummary>(seen[number] ? *std::move(seen[number])
                                                                      : Late(unknown[number].name));
  }
  Keep(list, Clock::now() - begin, numbers, summaries);
  return summaries;
}

/// Keeps what the next page, or the next list, can show. Datasets that were not opened are tried again.
void DatasetLists::Keep(List* list, Clock::duration spent, std::span<const std::size_t> numbers,
                        std::span<const Summary> summaries) {
  const std::lock_guard lock(mutex_);
  list->spent += spent;
  Hold(list, Clock::now());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::uint64_t bytes = summaries[i]->SpaceUsedLong();
    const bool fits = list->bytes + bytes <= kMostKept;
    if (summaries[i]->grids().empty() || !fits || list->summaries.contains(numbers[i])) continue;
    list->summaries.emplace(numbers[i], summaries[i]);
    list->bytes += bytes;
  }
}

}  // namespace quarry::server
