#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "quarry/pack/pack_file.h"
#include "quarry/storage/location.h"
#include "quarry/storage/storage_around.h"

/// The one place that knows that steps may be in packs. docs/format.md, "Packs".
namespace quarry {

/// A pack in the folder "steps", by its name.
struct PackRef {
  std::string name;
  std::vector<format::StepRun> runs;

  bool Has(std::uint64_t step) const;
  std::uint64_t steps() const;
};

/// The packs among names of the folder "steps".
/// @errors kDataLoss: one has no proper name; two have a step in common; they have too many steps
Result<std::vector<PackRef>> PacksAmong(const std::vector<FolderEntry>& names);

/// A dataset in which each packed step is the folder that it was, with the same files. A step that has a
/// folder and is in a pack is the folder. What was packed or unpacked since the last listing is found as
/// well. Thread-safe.
class PackedSteps final : public StorageAround {
 public:
  /// The likely state of a dataset. It decides the calls of a listing, not its result.
  enum class State : std::uint8_t {
    kChanges,
    kRests,  ///< a listing takes one look at a stamp; after a change it is made twice
  };

  /// @param root  a dataset, in a storage without packs
  explicit PackedSteps(const Location& root, State state = State::kChanges);

  /// Packs as of the last listing of "steps".
  std::vector<PackRef> packs() const;
  /// The dataset that this was made for.
  const std::string& root() const { return root_; }

  Result<std::vector<FolderEntry>> List(const std::string& folder) const override;
  Result<std::vector<FolderEntry>> ListNames(const std::string& folder) const override;
  Result<ObjectInfo> Stat(const std::string& path) const override;
  Result<std::shared_ptr<const StoredObject>> Open(const std::string& path) const override;
  Result<OpenedFile> OpenWith(const std::string& path, FileEnd end, std::uint64_t most,
                              Stamp* stamp) const override;
  Result<Bytes> ReadWhole(const std::string& path, std::uint64_t limit) const override;
  std::shared_ptr<const StoredObject> Refer(const std::string& path, std::uint64_t size,
                                            std::uint64_t content) const override;

 protected:
  std::unique_ptr<Reading> Begin(std::vector<ReadRange> ranges, RangeDone done,
                                 const std::function<bool()>& cancelled) const override;

 private:
  class Referred;
  class Translation;

  /// A step, and a file in its folder; an empty name: the folder.
  struct Place {
    std::uint64_t step = 0;
    std::string_view file;
  };
  std::optional<Place> PlaceOf(const std::string& path) const;
  Result<std::vector<FolderEntry>> ListSteps() const;
  Result<std::vector<FolderEntry>> ListPacked(const PackRef& pack, const Place& place) const;
  Result<ObjectInfo> StatPacked(const PackRef& pack, const Place& place) const;
  Result<std::shared_ptr<const PackFile>> OpenPack(const PackRef& pack, Stamp* stamp = nullptr) const;
  std::optional<PackRef> PackOf(std::uint64_t step) const;
  std::optional<PackRef> OnlyPackOf(std::uint64_t step) const;
  void Relist() const;
  void Keep(std::vector<PackRef> packs, std::vector<std::uint64_t> folders) const;
  template <typename T, typename Outside, typename Inside>
  Result<T> Find(const std::string& path, const Outside& outside, const Inside& inside) const;

  const std::string root_;
  const std::string steps_;  ///< path of the folder
  const State state_;
  mutable std::mutex mutex_;  ///< never held over a look at the storage
  mutable std::vector<PackRef> packs_;
  mutable std::vector<std::uint64_t> folders_;  ///< ascending; packed steps that had a folder too
};

/// A dataset with its packed steps shown as folders.
Location WithPacks(const Location& root, PackedSteps::State state = PackedSteps::State::kChanges);

/// The storage of WithPacks, behind those around it; null: there is none.
const PackedSteps* PackedStepsOf(const Location& root);

/// The packs of a dataset, as of the last listing. @param root  from WithPacks
std::vector<PackRef> PacksOf(const Location& root);

/// The pack that has a step, for messages; empty: none, as of the last listing.
std::string NameOfPack(const Location& root, std::uint64_t step);

}  // namespace quarry
