#pragma once

namespace quarry::client {

/// From now on Dataset::Open and ListDatasets take grpc://HOST:PORT/NAME and grpcs://HOST:PORT/NAME. Call it
/// once, before the first of them. A process that forks calls it, and opens datasets, after the fork.
/// Thread-safe.
void EnableGrpc();

}  // namespace quarry::client
