#pragma once

#include <lmdb.h>

#include <filesystem>
#include <memory>

#include "quarry/base/endian.h"
#include "quarry/base/status.h"

/// Owners for LMDB's handles, and its errors as Status. Included by this room's .cc files only.
namespace quarry::index::lmdb {

/// @param path of the environment, for the message
Status Check(int code, const char* action, const std::filesystem::path& path);

inline MDB_val ToVal(ByteSpan bytes) { return {bytes.size(), const_cast<std::byte*>(bytes.data())}; }
inline ByteSpan ToSpan(const MDB_val& value) {
  return {static_cast<const std::byte*>(value.mv_data), value.mv_size};
}

/// Closes handles. A transaction that was not committed aborts.
struct Close {
  void operator()(MDB_env* environment) const { mdb_env_close(environment); }
  void operator()(MDB_txn* transaction) const { mdb_txn_abort(transaction); }
};

/// An environment in one file, without LMDB's lock file: no other process knows the file. Nothing is durable
/// before Sync.
class Environment {
 public:
  /// Creates a new file. LMDB trusts the contents of a file, so it never opens one from elsewhere:
  /// lmdb_reader.h reads those.
  /// @param map_bytes  address space at first, see MakeRoom
  static Result<Environment> Create(const std::filesystem::path& path, std::uint64_t map_bytes);

  /// Enlarges the map where the file could outgrow it with so many bytes more. No transaction may be open.
  Status MakeRoom(std::uint64_t bytes) const;
  Status Sync() const;

  MDB_env* get() const { return env_.get(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  Environment(MDB_env* env, std::filesystem::path path) : env_(env), path_(std::move(path)) {}
  std::unique_ptr<MDB_env, Close> env_;
  std::filesystem::path path_;
};

/// A transaction that aborts unless committed. One thread at a time.
class Transaction {
 public:
  static Result<Transaction> Begin(const Environment& environment);

  Status Commit();
  /// Makes it if there is none.
  Result<MDB_dbi> OpenDatabase(const char* name) const;
  /// @param flags  MDB_APPEND for a key beyond all others of the database
  Status Put(MDB_dbi database, ByteSpan key, ByteSpan value, unsigned flags = 0);
  MDB_txn* get() const { return txn_.get(); }
  const std::filesystem::path& path() const { return *path_; }

 private:
  Transaction(MDB_txn* txn, const std::filesystem::path* path) : txn_(txn), path_(path) {}
  std::unique_ptr<MDB_txn, Close> txn_;
  const std::filesystem::path* path_;
};

}  // namespace quarry::index::lmdb
