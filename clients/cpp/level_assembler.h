#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <unordered_map>

#include "quarry/client.h"
#include "quarry/geometry/sample_place.h"

namespace quarry::client::internal {

/// Assembles the blocks of an answer, level by level, from any source.
class LevelAssembler {
 public:
  /// @param field   of the answer
  /// @param buffer  see CallOptions; it and `on_level` outlive the assembler
  LevelAssembler(query::AnswerHeader header, std::shared_ptr<const FieldDescription> field,
                 const LevelCallback& on_level, const BufferCallback& buffer)
      : header_(std::move(header)), field_(std::move(field)), on_level_(on_level), buffer_(buffer) {}

  /// Memory of the current level; of no sample if it has none.
  /// @errors kInternal: not the current level; those of the caller's buffer
  Result<SampleArray> Array(int level);

  /// Memory for the samples of the next block, to be filled before EndLevel.
  /// @errors kInternal: not the current level, or outside its extent; those of the caller's buffer
  /// @param shown  for damaged payload: what the samples are instead; see DamagedBox
  Result<SamplePlace> AddBlock(int level, const Box& extent,
                               const std::optional<query::LevelChoice>& shown = {});

  /// Marks a part of a block of the current level as damaged. @param shown  what its samples are instead
  void ShowDamage(const Box& extent, const query::LevelChoice& shown);

  /// Layer of accuracy of the current level; that of the last one after it.
  int layer() const { return header_.levels[std::min(next_level_, header_.levels.size() - 1)].layer; }

  /// Completes the level and hands it on. @errors kInternal when samples are missing, or came twice; errors
  /// of the callback
  Status EndLevel(int level, const ReadCost& cost);

  /// @errors kInternal when levels are missing
  Status CheckComplete() const;

 private:
  struct IndexHash {
    std::size_t operator()(const Index3& index) const;
  };

  Status StartLevel(int level);
  Status TakeMemory();
  Result<SamplePlace> Place(const Box& extent);
  void LeaveOut(const Box& extent, const SamplePlace& place) const;
  void AddCorners(const Box& box, int sign);

  const query::AnswerHeader header_;
  const std::shared_ptr<const FieldDescription> field_;
  const LevelCallback& on_level_;
  const BufferCallback& buffer_;
  std::size_t next_level_ = 0;  ///< position of the current level in header_.levels
  bool started_ = false;
  std::int64_t missing_ = 0;  ///< samples of it that have not arrived
  /// Corners of its blocks, less those of its extent; each is added if an even number of its coordinates are
  /// ends, otherwise subtracted. This is the mixed difference of how often each sample came, less one each.
  /// It is zero everywhere only if that is: no corner is left if and only if each sample came once.
  std::unordered_map<Index3, std::int64_t, IndexHash> corners_;
  LevelSamples current_;
  SampleArray array_;  ///< its samples
};

}  // namespace quarry::client::internal
