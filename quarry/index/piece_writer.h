#pragma once

#include <filesystem>
#include <map>
#include <memory>

#include "quarry/dataset/dataset.h"
#include "quarry/index/piece.h"
#include "quarry/index/step_state.h"

namespace quarry::index {

/// How much a PieceWriter has in memory and in its map.
struct PieceWriterLimits {
  std::uint64_t transaction_bytes = 64 << 20;  ///< records of a transaction: LMDB has its pages in memory
  std::uint64_t first_map = std::uint64_t{4} << 30;  ///< address space; it grows with the file
};

/// Writes a piece of an index: the records of some steps in ascending order, each from an open piece or from
/// the tables of the dataset, and those of all masks that the steps name. One caller at a time.
class PieceWriter {
 public:
  /// Numbers of what was read from tables.
  struct Loaded {
    std::uint64_t steps = 0;
    std::uint64_t fields = 0;
    std::uint64_t patches = 0;
    std::uint64_t masks = 0;
    std::uint64_t bytes = 0;  ///< records of the steps
  };

  /// @param path  of a new file
  static Result<std::unique_ptr<PieceWriter>> Create(const std::filesystem::path& path,
                                                     const Dataset& dataset,
                                                     const PieceWriterLimits& limits = {});
  ~PieceWriter();

  /// Takes over the records of a step.
  /// @errors kDataLoss, with damaged(): the other piece is damaged, or has no such step
  Status CopyStep(const std::shared_ptr<const Piece>& from, const MarkedStep& step);
  /// Loads a step. @errors kDataLoss: step.json or a table is damaged
  Status LoadStep(const MarkedStep& step);
  /// Adds the masks, and makes the file durable. @errors those of CopyStep and LoadStep
  Status Finish();

  /// [bytes] of the records so far, without masks.
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t steps() const { return steps_; }
  const Loaded& loaded() const { return loaded_; }
  /// The piece whose damage was the last error; null: it was something else.
  const Piece* damaged() const { return damaged_; }

 private:
  struct Database;
  struct File;
  /// Where the records of a mask come from: a piece, or the tables of the mask as a step describes it.
  struct MaskSource {
    std::shared_ptr<const Piece> piece;
    std::uint64_t step = 0;
  };

  PieceWriter(std::unique_ptr<File> file, const Dataset& dataset, const PieceWriterLimits& limits);

  Status Put(Database* database, ByteSpan key, ByteSpan value);
  Status Renew();
  Status CopyRecords(const Piece& from, const StoredTree& tree, std::uint64_t first, std::size_t key_bytes,
                     Database* to);
  Status CopyMask(const Piece& from, std::uint64_t mask);
  Status LoadField(std::uint64_t step, std::size_t number, const FieldStepDescription& field);
  Status LoadMask(std::uint64_t step, std::uint64_t mask);
  Status AddMask(const MaskDescription& mask, std::uint64_t step);
  Status LoadTable(Database* database, std::size_t subfile, TableWalk* table,
                   const std::function<Bytes(std::uint64_t)>& key_of);

  const std::unique_ptr<File> file_;
  const Dataset& dataset_;
  const PieceWriterLimits limits_;
  std::map<std::uint64_t, MaskSource> masks_;
  std::uint64_t bytes_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t in_transaction_ = 0;  ///< [bytes] of records
  Loaded loaded_;
  const Piece* damaged_ = nullptr;
};

/// The number of a field of a step. @errors kDataLoss: dataset.json does not know it
Result<std::size_t> NumberOfField(const Dataset& dataset, std::uint64_t step,
                                  const FieldStepDescription& field);

}  // namespace quarry::index
