#include "tools/iobench/scratch.h"

#include <cerrno>
#include <cstdlib>
#include <exception>

#include "quarry/base/file.h"
#include "writer/pipeline/comm.h"

namespace quarry::iobench {
namespace fs = std::filesystem;

namespace {

Status MakeFolder(const fs::path& directory, std::string* name) {
  if (::mkdtemp(name->data()) != nullptr) return Status::Ok();
  Status status = ErrnoStatus(errno, "create a folder in", directory.string());
  std::error_code ignored;
  // Not a missing path, but a directory in which nothing can be created.
  if (status.code() == StatusCode::kNotFound && fs::is_directory(directory, ignored))
    return {StatusCode::kInternal, status.message()};
  return status;
}

}  // namespace

Result<Scratch> Scratch::Create(MPI_Comm comm, const fs::path& directory, bool keep) {
  std::string name = (directory / "quarry-iobench-XXXXXX").string();
  const bool root = writer::Rank(comm) == 0;
  QUARRY_RETURN_IF_ERROR(writer::BroadcastStatus(comm, root ? MakeFolder(directory, &name) : Status::Ok()));
  QUARRY_ASSIGN_OR_RETURN(name, writer::BroadcastText(comm, name));
  return Scratch(name, root, keep);
}

Scratch::Scratch(Scratch&& other) noexcept
    : path_(std::move(other.path_)), removes_(other.removes_), keep_(other.keep_) {
  other.path_.clear();
}

Scratch::~Scratch() {
  if (path_.empty() || keep_ || (!removes_ && std::uncaught_exceptions() == 0)) return;
  (void)RemoveTree(path_);
}

}  // namespace quarry::iobench
