#include "quarry/answer/dataset_messages.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "quarry/base/numbers.h"
#include "quarry/base/units.h"
#include "quarry/format/proto_convert.h"

namespace quarry::answer {
namespace {

namespace pb = ::quarry::v1;

constexpr std::uint32_t kDefaultPage = 100;
constexpr std::uint32_t kLargestPage = 1000;
constexpr std::size_t kNumbersPage = 100'000;  ///< page of step numbers alone: at most 1 MB

using Steps = std::span<const std::uint64_t>;

pb::GetDatasetResponse NumbersPage(Steps left) {
  pb::GetDatasetResponse response;
  const Steps page = left.first(std::min(left.size(), kNumbersPage));
  response.mutable_step_numbers()->Add(page.begin(), page.end());
  if (page.size() < left.size()) response.set_next_page_token(std::to_string(page.back()));
  return response;
}

/// The next steps of a list, as messages: several where the storage answers several together.
Result<std::vector<pb::StepManifest>> NextSteps(const Dataset& dataset, Steps steps, bool without_subfiles,
                                                Catalogue::Hold* hold) {
  std::vector<pb::StepManifest> messages;
  if (!without_subfiles) {
    QUARRY_ASSIGN_OR_RETURN(const auto step, dataset.Step(steps.front()));
    messages.push_back(format::ToProto(*step));
    return messages;
  }
  const Steps some = steps.first(std::min(steps.size(), dataset.summaries_at_once()));
  for (const Result<StepSummary>& step : dataset.Summaries(some, hold)) {
    QUARRY_RETURN_IF_ERROR(step.status());
    messages.push_back(format::ToProto(*step));
  }
  return messages;
}

Result<pb::GetDatasetResponse> StepsPage(const Dataset& dataset, Steps left, bool without_subfiles,
                                         const PageLimits& limits) {
  pb::GetDatasetResponse response;
  *response.mutable_manifest() = format::ToProto(dataset.description());
  const TimeUnit& unit = dataset.description().time_unit;
  const bool dated = HasReferenceDate(unit.units);
  const Steps page = left.first(std::min<std::size_t>(left.size(), limits.steps));
  std::size_t bytes = 0;
  std::size_t taken = 0;
  Catalogue::Hold hold;
  while (taken < page.size() && bytes < limits.bytes) {
    QUARRY_ASSIGN_OR_RETURN(std::vector<pb::StepManifest> steps,
                            NextSteps(dataset, page.subspan(taken), without_subfiles, &hold));
    for (pb::StepManifest& step : steps) {
      if (bytes >= limits.bytes) break;
      bytes += step.ByteSizeLong();
      const std::optional<double> time = step.has_time() ? std::optional(step.time()) : std::nullopt;
      if (dated) response.add_dates(DateText(time, unit));
      *response.add_steps() = std::move(step);
      ++taken;
    }
  }
  if (taken < left.size()) response.set_next_page_token(std::to_string(left[taken - 1]));
  return response;
}

}  // namespace

std::uint32_t PageSize(std::uint32_t asked) {
  return asked == 0 ? kDefaultPage : std::min(asked, kLargestPage);
}

std::string DateText(const std::optional<double>& time, const TimeUnit& unit) {
  return time ? DateOfTime(*time, unit).value_or("") : "";
}

Result<pb::GetDatasetResponse> DatasetPage(const Dataset& dataset, const pb::GetDatasetRequest& request,
                                           const PageLimits& limits) {
  Steps left = dataset.steps();
  // The token is the last step of the previous page.
  if (const std::string& token = request.page_token(); !token.empty()) {
    std::uint64_t last = 0;
    if (!ReadNumber(token, &last))
      return InvalidArgument("page token \"{}\" is not from this server; begin with an empty one", token);
    left = left.subspan(
        static_cast<std::size_t>(std::upper_bound(left.begin(), left.end(), last) - left.begin()));
  }
  if (request.numbers_only()) return NumbersPage(left);
  if (request.manifest_only()) {
    pb::GetDatasetResponse response;
    *response.mutable_manifest() = format::ToProto(dataset.description());
    return response;
  }
  return StepsPage(dataset, left, request.without_subfiles(), limits);
}

}  // namespace quarry::answer
