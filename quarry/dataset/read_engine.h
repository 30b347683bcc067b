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
  ReadEngine(std::shared_ptr<PatchStore> shared, int threads) : store(std::move(shared)), pool(threads) {}

  /// Runs parts of a computation in the turns of a client.
  auto InTurnOf(const Requester& requester) {
    return [this, client = requester.client](std::uint64_t work, const std::function<void()>& compute) {
      pool.InTurn(client, work, compute);
    };
  }

  const std::shared_ptr<PatchStore> store;
  DecodePool pool;  ///< destroyed first: its tasks end in the store
};

}  // namespace quarry
