#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "quarry/format/catalogue.h"
#include "quarry/storage/writable_storage.h"

namespace quarry::writer {

/// Keeps the head and the catalogue of a dataset, under its writing lock. A step costs one small file, the
/// head, whatever the number of steps: the newest records are in the head, and some hundreds at a time move
/// to the last page, until that is full. docs/format.md, "Head and catalogue" and "Publishing".
class CatalogueWriter {
 public:
  /// For a dataset that has no step yet. @param root  its folder, or that in which it grows
  explicit CatalogueWriter(WritableLocation root)
      : root_(std::move(root.root)), storage_(std::move(root.storage)) {}

  /// For an existing dataset. If its catalogue is incomplete, or not current, it is made anew, unless that
  /// takes seconds; "quarry upgrade" is for those.
  static CatalogueWriter Open(const WritableLocation& root, const DatasetDescription& dataset);
  /// The same, as it is found.
  static CatalogueWriter Found(const WritableLocation& root);
  /// The same. @errors kNotFound: there is no head; kDataLoss: it is damaged; those of the storage
  static Result<CatalogueWriter> Read(const WritableLocation& root);

  /// Adds the record of a step that is published, and writes the head. What could not be written then is
  /// written with the next step.
  /// @param is_new  false: fields were added to a step that was there
  Status Put(format::StepRecord record, bool is_new);
  /// The same for steps that were published together: the head is written once.
  /// @errors kFailedPrecondition: in a store, another process has put a head
  Status PutNew(std::vector<format::StepRecord> records);

  /// To be called before the step.json of a step is replaced: no reader trusts a record until the new one of
  /// this step is put.
  Status Doubt(std::uint64_t step);
  /// The same for all steps, until the catalogue is made anew.
  static Status DoubtAll(const WritableLocation& root);

  /// Makes everything anew.
  /// @param steps  all that the dataset has
  /// @param next   their records, as far as there are some, ascending by step; then nothing
  /// @errors those of `next`; kInternal: a file cannot be written
  using NextRecord = std::function<Result<std::optional<format::StepRecord>>()>;
  Status Remake(std::vector<format::StepRun> steps, const NextRecord& next);

  /// For a store: its readers take the steps from the heads that are written from now on, unless there are
  /// too many runs of steps.
  void PublishSteps() { publishes_ = true; }
  /// Whether they do so now.
  bool publishes() const { return publishes_ && settled_; }
  /// The steps that the head lists. Needs `publishes`.
  std::vector<std::uint64_t> PublishedSteps() const { return format::StepsOf(*runs_); }

  /// Removes pages and temporary files that an interrupted run has left behind.
  Status RemoveUnnamed() const;

  /// The head and pages were moved with the dataset.
  void MoveTo(Location root) { root_ = std::move(root); }

  std::uint64_t steps() const { return steps_; }
  std::uint64_t pages() const { return pages_.size(); }

 private:
  Status ReadFiles();
  Status ReadHead();
  Result<std::vector<format::StepRecord>> ReadPage(const format::PageRef& ref) const;
  Result<bool> HasRecord(std::uint64_t step) const;
  void Take(format::StepRecord record);
  Status Add(format::StepRecord record);
  Status Flush();
  Status WriteLastPage();
  Status WritePage(const format::EncodedPage& page);
  Status PutFile(const std::string& place, ByteSpan bytes) const;
  Status PutHead(Bytes bytes);
  Status LearnTag();
  Status WriteHead();
  Status Settle();
  Status MergePages();
  Status Gather(const NextRecord& next);
  format::CatalogueHead Head() const;

  Location root_;
  std::shared_ptr<const WritableStorage> storage_;
  std::uint64_t steps_ = 0;  ///< with a record
  /// All steps; none: they are not known.
  std::optional<std::vector<format::StepRun>> runs_ = std::vector<format::StepRun>();
  bool publishes_ = false;
  std::string tag_;           ///< tag of the head in a store; empty: there is none
  std::optional<Bytes> put_;  ///< the head in a store, where its tag was not asked for yet
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
Status RemakeCatalogue(CatalogueWriter* catalogue, const Location& dataset,
                       const DatasetDescription& description,
                       const std::function<void(std::uint64_t)>& progress,
                       const std::function<void(Status)>& damaged);

}  // namespace quarry::writer
