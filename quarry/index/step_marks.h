#pragma once

#include <optional>
#include <vector>

#include "quarry/dataset/dataset.h"
#include "quarry/format/catalogue.h"
#include "quarry/index/step_state.h"

/// The marks of all steps of a dataset, for the cost of a few files.
namespace quarry::index {

/// The page of the catalogue that alone has the records of each step; nothing where there is none. The name
/// of a page stands for all its records.
/// @param steps  of the dataset, ascending
/// @complexity O(steps + pages log steps), whatever the head says
std::vector<std::optional<std::uint64_t>> PagesOf(const std::vector<std::uint64_t>& steps,
                                                  const format::CatalogueHead& head);

/// The marks of the steps of a dataset. The catalogue tells them if it is current: the size and the checksum
/// of step.json in the record of a step, and for a whole range the names of the pages, so that no page is
/// read. Without a catalogue, or without a record, the storage tells (MarkOfStep).
class StepMarks {
 public:
  /// Reads the head of the catalogue; if that is not current, looks at each step. To be called before any
  /// step.json is read: a mark must not be newer than what is indexed.
  /// @param dataset  outlives this
  /// @errors those of MarkOfStep
  static Result<StepMarks> Take(const Dataset& dataset);

  /// @param place  of the step in Dataset::steps
  /// @errors those of MarkOfStep
  Result<MarkedStep> Of(std::size_t place);
  /// One number for the steps from `begin` up to `end`: MarksOf their marks, or of pages that have them.
  /// @errors those of MarkOfStep
  Result<std::uint64_t> OfRange(std::size_t begin, std::size_t end);

 private:
  explicit StepMarks(const Dataset& dataset) : dataset_(dataset) {}

  const Dataset& dataset_;
  Catalogue::Hold hold_;
  std::vector<std::optional<std::uint64_t>> pages_;  ///< see PagesOf; without a current catalogue none
  std::vector<std::optional<std::uint64_t>> marks_;  ///< that are known
};

}  // namespace quarry::index
