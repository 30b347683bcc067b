#include "quarry/index/lmdb.h"

#include <algorithm>
#include <cerrno>

namespace quarry::index::lmdb {

namespace {
// Address space of a writer, not memory or disk: the file grows with its records.
constexpr std::size_t kMapBytes = std::size_t{256} << 30;
}  // namespace

Status Check(int code, const char* action, const std::filesystem::path& path) {
  if (code == MDB_SUCCESS) return Status::Ok();
  if (code > 0) return ErrnoStatus(code, action, path.string());
  return DataLoss("cannot {} \"{}\": {}; run quarry-index with --rebuild", action, path.string(),
                  mdb_strerror(code));
}

Result<Environment> Environment::Create(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return InternalError("\"{}\" exists already", path.string());
  MDB_env* env = nullptr;
  QUARRY_RETURN_IF_ERROR(Check(mdb_env_create(&env), "create the index", path));
  Environment environment(env, path);
  QUARRY_RETURN_IF_ERROR(Check(mdb_env_set_maxdbs(env, 8), "set up the index", path));
  QUARRY_RETURN_IF_ERROR(Check(mdb_env_set_mapsize(env, kMapBytes), "set up the index", path));
  constexpr unsigned kFlags = MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOTLS;
  QUARRY_RETURN_IF_ERROR(Check(mdb_env_open(env, path.c_str(), kFlags, 0644), "make the index", path));
  return environment;
}

Result<Transaction> Transaction::Begin(const Environment& environment) {
  MDB_txn* txn = nullptr;
  QUARRY_RETURN_IF_ERROR(
      Check(mdb_txn_begin(environment.get(), nullptr, 0, &txn), "write the index", environment.path()));
  return Transaction(txn, &environment.path());
}

Status Transaction::Commit() { return Check(mdb_txn_commit(txn_.release()), "write the index", *path_); }

Status Transaction::Renew(const Environment& environment) {
  QUARRY_RETURN_IF_ERROR(Commit());
  QUARRY_ASSIGN_OR_RETURN(*this, Begin(environment));
  return Status::Ok();
}

Result<MDB_dbi> Transaction::OpenDatabase(const char* name) const {
  MDB_dbi database = 0;
  QUARRY_RETURN_IF_ERROR(
      Check(mdb_dbi_open(txn_.get(), name, MDB_CREATE, &database), "open a database of the index", *path_));
  return database;
}

Status Transaction::Put(MDB_dbi database, ByteSpan key, ByteSpan value, unsigned flags) {
  MDB_val k = ToVal(key);
  MDB_val v = ToVal(value);
  return Check(mdb_put(txn_.get(), database, &k, &v, flags), "write the index", *path_);
}

Result<bool> HasRecord(const Transaction& transaction, MDB_dbi database, ByteSpan key, ByteSpan value) {
  MDB_val k = ToVal(key);
  MDB_val found;
  const int code = mdb_get(transaction.get(), database, &k, &found);
  if (code == MDB_NOTFOUND) return false;
  QUARRY_RETURN_IF_ERROR(Check(code, "read the index", transaction.path()));
  return std::ranges::equal(ToSpan(found), value);
}

Result<Cursor> Cursor::Open(const Transaction& transaction, MDB_dbi database) {
  MDB_cursor* cursor = nullptr;
  QUARRY_RETURN_IF_ERROR(
      Check(mdb_cursor_open(transaction.get(), database, &cursor), "read the index", transaction.path()));
  return Cursor(cursor, &transaction.path());
}

Result<std::optional<Cursor::Record>> Cursor::Seek(ByteSpan key) {
  MDB_val k = ToVal(key);
  MDB_val value;
  const int code = mdb_cursor_get(cursor_.get(), &k, &value, MDB_SET_RANGE);
  if (code == MDB_NOTFOUND) return std::optional<Record>();
  QUARRY_RETURN_IF_ERROR(Check(code, "read the index", *path_));
  return std::optional<Record>(Record{ToSpan(k), ToSpan(value)});
}

Status Cursor::Delete() { return Check(mdb_cursor_del(cursor_.get(), 0), "write the index", *path_); }

}  // namespace quarry::index::lmdb
