#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "quarry/format/catalogue.h"

namespace quarry::writer {

/// Keeps the head and the catalogue of a dataset, under its writing lock. A step costs one small file, the
/// head, whatever the number of steps: the newest records are in the head, and some hundreds at a time move
/// to the last page, until that is full. docs/format.md, "Head and catalogue" and "Publishing".
class CatalogueWriter {
 public:
  /// For a dataset that has no step yet. @param root  its folder, or that in which it grows
  explicit CatalogueWriter(std::filesystem::path root) : root_(std::move(root)) {}

  /// For an existing dataset. If its catalogue is incomplete, or not current, it is made anew, unless that
  /// takes seconds; "quarry upgrade" is for those.
  static CatalogueWriter Open(const std::filesystem::path& root, const DatasetDescription& dataset);
  /// The same, as it is found.
  static CatalogueWriter Found(const std::filesystem::path& root);

  /// Adds the record of a step that is published, and writes the head. What could not be written then is
  /// written with the next step.
  /// @param is_new  false: fields were added to a step that was there
  Status Put(format::StepRecord record, bool is_new);

  /// To be called before the step.json of a step is replaced: no reader trusts a record until the new one of
  /// this step is put.
  Status Doubt(std::uint64_t step);
  /// The same for all steps, until the catalogue is made anew.
  static Status DoubtAll(const std::filesystem::path& root);

  /// Makes everything anew.
  /// @param next  the records in ascending order of their steps, then nothing
  /// @errors those of `next`; kInternal: a file cannot be written
  using NextRecord = std::function<Result<std::optional<format::StepRecord>>()>;
  Status Remake(const NextRecord& next);

  /// Removes pages and temporary files that an interrupted run has left behind.
  Status RemoveUnnamed() const;

  /// The head and pages were moved with the dataset.
  void MoveTo(std::filesystem::path root) { root_ = std::move(root); }

  std::uint64_t steps() const { return steps_; }
  std::uint64_t pages() const { return pages_.size(); }

 private:
  Status ReadHead();
  Result<std::vector<format::StepRecord>> ReadPage(const format::PageRef& ref) const;
  Result<bool> HasRecord(std::uint64_t step) const;
  void Take(format::StepRecord record);
  Status Flush();
  Status WriteLastPage();
  Status WritePage(const format::EncodedPage& page);
  Status WriteHead();
  Status Settle();
  Status MergePages();
  Status Gather(const NextRecord& next);

  std::filesystem::path root_;
  std::uint64_t steps_ = 0;
  std::vector<format::PageRef> pages_;
  std::vector<format::StepRecord> newest_;  ///< records of the head, ascending by step
  format::RecordEncoder encoder_;           ///< has `newest_`
  /// Records of the last page, where it is not full, and they are known.
  std::optional<std::vector<format::StepRecord>> open_;
  std::optional<format::EncodedPage> unwritten_;  ///< the last page, where it is not written yet
  std::vector<std::uint64_t> replaced_;           ///< pages that the next head does not name
  std::set<std::uint64_t> in_doubt_;              ///< steps whose record may be old
  bool doubtful_ = false;                         ///< any record may be old
  bool settled_ = false;                          ///< format::kCurrentFile is there
};

/// Makes head and catalogue of a dataset anew from its step.json files.
/// @param catalogue  of the dataset, whose writing lock the caller holds
/// @param progress   called with the number of steps read
/// @param damaged    called with the error of each step.json that cannot be read; the step gets no record
/// @errors kInternal
Status RemakeCatalogue(CatalogueWriter* catalogue, const std::filesystem::path& dataset,
                       const DatasetDescription& description,
                       const std::function<void(std::uint64_t)>& progress,
                       const std::function<void(Status)>& damaged);

}  // namespace quarry::writer
