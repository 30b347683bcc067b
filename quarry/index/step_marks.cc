#include "quarry/index/step_marks.h"

#include <algorithm>

#include "quarry/base/checksum.h"
#include "quarry/base/endian.h"

namespace quarry::index {
namespace {

/// The mark of a step by its record. A program that replaces a step.json writes its record, or says that the
/// catalogue is not current.
std::uint64_t MarkOfRecord(const format::StepRecord& record) {
  Bytes bytes;
  PutLittleEndian(&bytes, record.manifest_bytes);
  PutLittleEndian(&bytes, record.summary.checksum);
  return Checksum(bytes);
}

}  // namespace

std::vector<std::optional<std::uint64_t>> PagesOf(const std::vector<std::uint64_t>& steps,
                                                  const format::CatalogueHead& head) {
  // Pages begin and end in the list of steps: running sums say how many lie over a step, and which, if it is
  // one. One that does not have each of its steps counts twice, so that it is never the only one.
  std::vector<std::uint64_t> over(steps.size() + 1, 0);
  std::vector<std::uint64_t> number(steps.size() + 1, 0);
  for (std::size_t p = 0; p < head.pages.size(); ++p) {
    const format::PageRef& page = head.pages[p];
    const auto begin = std::ranges::lower_bound(steps, page.first) - steps.begin();
    const auto end = std::max(begin, std::ranges::upper_bound(steps, page.last) - steps.begin());
    const std::uint64_t weight = static_cast<std::uint64_t>(end - begin) == page.records ? 1 : 2;
    over[static_cast<std::size_t>(begin)] += weight;
    over[static_cast<std::size_t>(end)] -= weight;
    number[static_cast<std::size_t>(begin)] += p;
    number[static_cast<std::size_t>(end)] -= p;
  }
  std::vector<std::optional<std::uint64_t>> pages(steps.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (i > 0) {
      over[i] += over[i - 1];
      number[i] += number[i - 1];
    }
    if (over[i] == 1) pages[i] = head.pages[static_cast<std::size_t>(number[i])].name;
  }
  for (const format::StepRecord& record : head.records) {
    const auto found = std::ranges::lower_bound(steps, record.summary.step);
    if (found != steps.end()) pages[static_cast<std::size_t>(found - steps.begin())].reset();
  }
  return pages;
}

Result<StepMarks> StepMarks::Take(const Dataset& dataset) {
  StepMarks marks(dataset);
  const std::size_t steps = dataset.steps().size();
  marks.marks_.resize(steps);
  if (dataset.catalogue().is_current() && dataset.catalogue().is_there()) {
    marks.pages_ = PagesOf(dataset.steps(), dataset.catalogue().head());
    return marks;
  }
  marks.pages_.resize(steps);
  for (std::size_t i = 0; i < steps; ++i) {
    QUARRY_ASSIGN_OR_RETURN(marks.marks_[i], MarkOfStep(dataset.root(), dataset.steps()[i]));
  }
  return marks;
}

Result<MarkedStep> StepMarks::Of(std::size_t place) {
  const std::uint64_t step = dataset_.steps()[place];
  if (!marks_[place]) {
    const format::StepRecord* const record = dataset_.catalogue().FindRecord(step, &hold_);
    if (record != nullptr) {
      marks_[place] = MarkOfRecord(*record);
    } else {
      QUARRY_ASSIGN_OR_RETURN(marks_[place], MarkOfStep(dataset_.root(), step));
    }
  }
  return MarkedStep{step, *marks_[place]};
}

Result<std::uint64_t> StepMarks::OfRange(std::size_t begin, std::size_t end) {
  std::vector<MarkedStep> steps;
  steps.reserve(end - begin);
  for (std::size_t i = begin; i < end; ++i) {
    if (pages_[i]) {
      steps.push_back({dataset_.steps()[i], *pages_[i]});
    } else {
      QUARRY_ASSIGN_OR_RETURN(steps.emplace_back(), Of(i));
    }
  }
  return MarksOf(steps);
}

}  // namespace quarry::index
