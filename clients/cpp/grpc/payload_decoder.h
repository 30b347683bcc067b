#pragma once

#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <set>

#include "clients/cpp/grpc/answer_reader.h"
#include "clients/cpp/level_assembler.h"
#include "quarry/codec/patch_reader.h"
#include "quarry/query/read_plan.h"
#include "quarry/store/decode_pool.h"

namespace quarry::client::internal {

/// Decodes the payload of an answer on the threads of a pool, while more of it arrives, to the places that an
/// assembler gives. The server is not trusted: its messages are checked against the dataset. One caller at a
/// time.
class PayloadDecoder {
 public:
  /// @param pool     outlives the decoder
  /// @param request  the question of the answer
  /// @errors kInternal: the description has an unknown coder
  static Result<std::unique_ptr<PayloadDecoder>> Make(const DatasetDescription& dataset,
                                                      const query::ReadRequest& request,
                                                      const query::AnswerHeader& header, DecodePool* pool);

  /// Waits for the decoding that has started.
  ~PayloadDecoder();

  /// Starts on the patches of a message; waits while too much is in progress. Until EndLevel or the end of
  /// the decoder, samples are written to the memory of the assembler.
  Status Add(const ::quarry::v1::PatchPayloads& part, MessageData* data, LevelAssembler* assembler);

  /// Waits for all patches of the level.
  Status EndLevel();

 private:
  struct Task;

  PayloadDecoder(int levels, const PatchGrid& grid, query::Query query, DecodePool* pool,
                 const PatchCoder* coder, const query::AnswerHeader& header);
  Result<std::shared_ptr<Task>> MakeTask(const ::quarry::v1::PatchPayload& patch, int level,
                                         MessageData* data);
  Status TakeLevels(const ::quarry::v1::PatchPayload& patch, MessageData* data, Task* task) const;
  Status CheckReached(Task* task);
  int FurtherLayer() const;
  static Status SetPlace(LevelAssembler* assembler, Task* task);
  Status Finish();

  const int levels_;
  const int layers_;  ///< layers of accuracy that are sent with each level
  const PatchGrid grid_;
  const query::Query query_;
  DecodePool* const pool_;
  const PatchCoder* const coder_;
  const DataType type_;
  const std::vector<query::LevelExtent> answer_;                   ///< its levels, coarsest first
  std::map<std::uint64_t, std::unique_ptr<PatchReader>> readers_;  ///< a finer level continues from these
  std::set<std::uint64_t> damaged_;                                ///< patches without finer levels
  std::set<std::uint64_t> arrived_;                                ///< patches of the current level
  std::size_t pass_ = 0;                                           ///< the current level of the answer
  std::deque<std::shared_ptr<Task>> under_way_;
  std::size_t bytes_under_way_ = 0;
};

}  // namespace quarry::client::internal
