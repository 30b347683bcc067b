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

Environment::~Environment() {
  if (env_ != nullptr) mdb_env_close(env_);
}

Result<Transaction> Transaction::Begin(const Environment& environment) {
  MDB_txn* txn = nullptr;
  QUARRY_RETURN_IF_ERROR(
      Check(mdb_txn_begin(environment.get(), nullptr, 0, &txn), "write the index", environment.path()));
  return Transaction(txn, &environment.path());
}

Transaction::~Transaction() {
  if (txn_ != nullptr) mdb_txn_abort(txn_);
}

Status Transaction::Commit() {
  MDB_txn* txn = txn_;
  txn_ = nullptr;
  return Check(mdb_txn_commit(txn), "write the index", *path_);
}

Status Transaction::Renew(const Environment& environment) {
  QUARRY_RETURN_IF_ERROR(Commit());
  QUARRY_ASSIGN_OR_RETURN(Transaction next, Begin(environment));
  std::swap(txn_, next.txn_);
  return Status::Ok();
}

Result<MDB_dbi> Transaction::OpenDatabase(const char* name) const {
  MDB_dbi database = 0;
  QUARRY_RETURN_IF_ERROR(
      Check(mdb_dbi_open(txn_, name, MDB_CREATE, &database), "open a database of the index", *path_));
  return database;
}

Result<std::optional<ByteSpan>> Transaction::Get(MDB_dbi database, ByteSpan key) const {
  MDB_val k = ToVal(key);
  MDB_val value;
  const int code = mdb_get(txn_, database, &k, &value);
  if (code == MDB_NOTFOUND) return std::optional<ByteSpan>();
  QUARRY_RETURN_IF_ERROR(Check(code, "read the index", *path_));
  return std::optional<ByteSpan>(ToSpan(value));
}

Status Transaction::Put(MDB_dbi database, ByteSpan key, ByteSpan value) {
  MDB_val k = ToVal(key);
  MDB_val v = ToVal(value);
  return Check(mdb_put(txn_, database, &k, &v, 0), "write the index", *path_);
}

Status Transaction::Append(MDB_dbi database, ByteSpan key, ByteSpan value) {
  MDB_val k = ToVal(key);
  MDB_val v = ToVal(value);
  return Check(mdb_put(txn_, database, &k, &v, MDB_APPEND), "write the index", *path_);
}

Result<bool> HasRecord(const Transaction& transaction, MDB_dbi database, ByteSpan key, ByteSpan value) {
  QUARRY_ASSIGN_OR_RETURN(const auto found, transaction.Get(database, key));
  return found && std::equal(found->begin(), found->end(), value.begin(), value.end());
}

Result<Cursor> Cursor::Open(const Transaction& transaction, MDB_dbi database) {
  MDB_cursor* cursor = nullptr;
  QUARRY_RETURN_IF_ERROR(
      Check(mdb_cursor_open(transaction.get(), database, &cursor), "read the index", transaction.path()));
  return Cursor(cursor, &transaction.path());
}

Cursor::~Cursor() {
  if (cursor_ != nullptr) mdb_cursor_close(cursor_);
}

Result<std::optional<Cursor::Record>> Cursor::Seek(ByteSpan key) { return Move(ToVal(key), MDB_SET_RANGE); }

Result<std::optional<Cursor::Record>> Cursor::Move(MDB_val key, MDB_cursor_op operation) {
  MDB_val value;
  const int code = mdb_cursor_get(cursor_, &key, &value, operation);
  if (code == MDB_NOTFOUND) return std::optional<Record>();
  QUARRY_RETURN_IF_ERROR(Check(code, "read the index", *path_));
  return std::optional<Record>(Record{ToSpan(key), ToSpan(value)});
}

Status Cursor::Delete() { return Check(mdb_cursor_del(cursor_, 0), "write the index", *path_); }

}  // namespace quarry::index::lmdb
