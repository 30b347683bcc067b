#pragma once

#include <functional>
#include <optional>
#include <unordered_map>

#include "clients/cpp/client.h"

namespace quarry::client {

/// Puts the blocks of an answer together, level by level, whoever delivers them.
class LevelAssembler {
 public:
  /// @param no_sample  bits of what stands where the answer leaves samples out
  LevelAssembler(query::AnswerHeader header, std::uint64_t no_sample, const LevelCallback& on_level)
      : header_(std::move(header)), no_sample_(no_sample), on_level_(on_level) {}

  /// @param samples  dense samples of `extent`
  /// @errors kInternal: not the level that is due, outside its extent, or of the wrong size
  /// @param shown_level  where payload is damaged: the coarser level that the samples repeat
  Status AddBlock(int level, const Box& extent, ByteSpan samples, std::optional<int> shown_level = {});

  /// The same with a source of bytes instead of samples.
  /// @param read  fills a buffer of so many bytes; false when there are none
  Status AddBlock(int level, const Box& extent, const std::function<bool(std::byte*, std::size_t)>& read,
                  std::optional<int> shown_level = {});

  /// The level is complete: hands it on. @errors kInternal when samples are missing, or came twice; what the
  /// callback returned
  Status EndLevel(int level, const ReadCost& cost);

  /// @errors kInternal when levels are missing
  Status CheckComplete() const;

 private:
  struct IndexHash {
    std::size_t operator()(const Index3& index) const;
  };

  Status StartLevel(int level);
  Status Place(const Box& extent, const std::function<bool(std::byte*, std::size_t)>& read);
  void AddCorners(const Box& box, int sign);

  const query::AnswerHeader header_;
  const std::uint64_t no_sample_;
  const LevelCallback& on_level_;
  std::size_t next_level_ = 0;  ///< position in header_.levels of the level that is due
  bool started_ = false;
  std::int64_t missing_ = 0;  ///< samples of it that have not come yet
  /// Corners of its blocks, less those of its extent; each is added where an even number of its coordinates are
  /// ends, and else subtracted. This is the mixed difference of how often each sample came, less once each, and
  /// it is zero everywhere only where that is: no corner is left if and only if each sample came once.
  std::unordered_map<Index3, std::int64_t, IndexHash> corners_;
  LevelSamples current_;
};

}  // namespace quarry::client
