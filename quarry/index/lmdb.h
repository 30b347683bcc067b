#pragma once

#include <lmdb.h>

#include <filesystem>
#include <optional>

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

/// An environment in one file, without LMDB's lock file: no other process knows the file.
class Environment {
 public:
  /// Creates a new file. LMDB trusts the contents of a file, so it never opens one from elsewhere:
  /// lmdb_reader.h reads those.
  static Result<Environment> Create(const std::filesystem::path& path);
  ~Environment();
  Environment(Environment&& other) noexcept : env_(other.env_), path_(std::move(other.path_)) {
    other.env_ = nullptr;
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  MDB_env* get() const { return env_; }
  const std::filesystem::path& path() const { return path_; }

 private:
  Environment(MDB_env* env, std::filesystem::path path) : env_(env), path_(std::move(path)) {}
  MDB_env* env_;
  std::filesystem::path path_;
};

/// A transaction that aborts unless committed. One thread at a time.
class Transaction {
 public:
  static Result<Transaction> Begin(const Environment& environment);
  ~Transaction();
  Transaction(Transaction&& other) noexcept : txn_(other.txn_), path_(other.path_) { other.txn_ = nullptr; }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  Status Commit();
  /// Commits, and begins another one.
  Status Renew(const Environment& environment);
  /// Makes it if there is none.
  Result<MDB_dbi> OpenDatabase(const char* name) const;
  /// The value of a key, valid during the transaction; nothing if there is none.
  Result<std::optional<ByteSpan>> Get(MDB_dbi database, ByteSpan key) const;
  Status Put(MDB_dbi database, ByteSpan key, ByteSpan value);
  /// The same for a key beyond all others of the database.
  Status Append(MDB_dbi database, ByteSpan key, ByteSpan value);
  MDB_txn* get() const { return txn_; }
  const std::filesystem::path& path() const { return *path_; }

 private:
  Transaction(MDB_txn* txn, const std::filesystem::path* path) : txn_(txn), path_(path) {}
  MDB_txn* txn_;
  const std::filesystem::path* path_;
};

/// Whether the key has this value.
Result<bool> HasRecord(const Transaction& transaction, MDB_dbi database, ByteSpan key, ByteSpan value);

/// A cursor that closes itself, before its transaction ends.
class Cursor {
 public:
  static Result<Cursor> Open(const Transaction& transaction, MDB_dbi database);
  ~Cursor();
  Cursor(Cursor&& other) noexcept : cursor_(other.cursor_), path_(other.path_) { other.cursor_ = nullptr; }
  Cursor(const Cursor&) = delete;
  Cursor& operator=(const Cursor&) = delete;

  struct Record {
    ByteSpan key;
    ByteSpan value;
  };
  /// The first record with a key >= `key`; nothing at the end.
  Result<std::optional<Record>> Seek(ByteSpan key);
  Status Delete();

 private:
  Cursor(MDB_cursor* cursor, const std::filesystem::path* path) : cursor_(cursor), path_(path) {}
  Result<std::optional<Record>> Move(MDB_val key, MDB_cursor_op operation);
  MDB_cursor* cursor_;
  const std::filesystem::path* path_;
};

}  // namespace quarry::index::lmdb
