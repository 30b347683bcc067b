#include "quarry/index/lmdb.h"

#include <cerrno>

namespace quarry::index::lmdb {

Status Check(int code, const char* action, const std::filesystem::path& path) {
  if (code == MDB_SUCCESS) return Status::Ok();
  if (code > 0) return ErrnoStatus(code, action, path.string());
  return DataLoss("cannot {} \"{}\": {}; run quarry-index with --rebuild", action, path.string(),
                  mdb_strerror(code));
}

Result<Environment> Environment::Create(const std::filesystem::path& path, std::uint64_t map_bytes) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return InternalError("\"{}\" exists already", path.string());
  MDB_env* env = nullptr;
  QUARRY_RETURN_IF_ERROR(Check(mdb_env_create(&env), "create the index", path));
  Environment environment(env, path);
  QUARRY_RETURN_IF_ERROR(Check(mdb_env_set_maxdbs(env, 8), "set up the index", path));
  QUARRY_RETURN_IF_ERROR(Check(mdb_env_set_mapsize(env, map_bytes), "set up the index", path));
  constexpr unsigned kFlags = MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOTLS | MDB_NOSYNC;
  QUARRY_RETURN_IF_ERROR(Check(mdb_env_open(env, path.c_str(), kFlags, 0644), "make the index", path));
  return environment;
}

Status Environment::MakeRoom(std::uint64_t bytes) const {
  MDB_envinfo info;
  MDB_stat pages;
  QUARRY_RETURN_IF_ERROR(Check(mdb_env_info(env_.get(), &info), "write the index", path_));
  QUARRY_RETURN_IF_ERROR(Check(mdb_env_stat(env_.get(), &pages), "write the index", path_));
  const std::uint64_t needed = (info.me_last_pgno + 1) * std::uint64_t{pages.ms_psize} + bytes;
  if (needed <= info.me_mapsize) return Status::Ok();
  return Check(mdb_env_set_mapsize(env_.get(), 2 * needed), "enlarge the map of the index", path_);
}

Status Environment::Sync() const { return Check(mdb_env_sync(env_.get(), 1), "sync the index", path_); }

Result<Transaction> Transaction::Begin(const Environment& environment) {
  MDB_txn* txn = nullptr;
  QUARRY_RETURN_IF_ERROR(
      Check(mdb_txn_begin(environment.get(), nullptr, 0, &txn), "write the index", environment.path()));
  return Transaction(txn, &environment.path());
}

Status Transaction::Commit() { return Check(mdb_txn_commit(txn_.release()), "write the index", *path_); }

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

}  // namespace quarry::index::lmdb
