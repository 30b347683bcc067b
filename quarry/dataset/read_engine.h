#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "quarry/store/decode_pool.h"
#include "quarry/store/patch_store.h"

namespace quarry {

/// Shared by all reads of a process. Thread-safe.
struct ReadEngine {
  /// @param memory_bytes  for all that is decoded or read
  /// @param threads       that decode; 0: UsableProcessors
  /// @param queue         most reads that may wait for memory at a time
  explicit ReadEngine(std::uint64_t memory_bytes, int threads = 0, std::size_t queue = SIZE_MAX)
      : ReadEngine(std::make_shared<PatchStore>(memory_bytes, queue), threads) {}
  ReadEngine(std::shared_ptr<PatchStore> shared, int threads, std::uint64_t payload_part = kPayloadPart)
      : payload_part(payload_part), store(std::move(shared)), pool(threads) {}

  /// An answer has stored payload of this part of the memory at a time: little for each of very many clients.
  static constexpr std::uint64_t kPayloadPart = 1024;

  /// Runs parts of a computation in the turns of a client.
  auto InTurnOf(const Requester& requester) {
    return [this, client = requester.client](std::uint64_t work, const std::function<void()>& compute) {
      pool.InTurn(client, work, compute);
    };
  }

  const std::uint64_t payload_part;  ///< see kPayloadPart
  const std::shared_ptr<PatchStore> store;
  DecodePool pool;  ///< destroyed first: its tasks end in the store
};

}  // namespace quarry
