#include "quarry/storage/file_pool.h"

#include <utility>

namespace quarry {

FilePool::File::File(std::shared_ptr<FilePool> pool, Open open,
                     const std::shared_ptr<const RandomAccessFile>& file)
    : pool_(std::move(pool)),
      open_(std::move(open)),
      path_(file->path()),
      size_(file->size()),
      identity_(file->identity()) {}

FilePool::File::~File() {
  std::shared_ptr<const RandomAccessFile> closed;  // after the lock
  const std::lock_guard lock(pool_->mutex_);
  if (file_) pool_->open_files_.erase(place_);
  closed = std::move(file_);
}

Result<std::shared_ptr<const FilePool::File>> FilePool::Add(Open open) {
  QUARRY_ASSIGN_OR_RETURN(RandomAccessFile opened, open());
  auto shared = std::make_shared<const RandomAccessFile>(std::move(opened));
  const std::shared_ptr<const File> file(new File(shared_from_this(), std::move(open), shared));
  Keep(file.get(), std::move(shared));
  return file;
}

Result<std::shared_ptr<const RandomAccessFile>> FilePool::File::Get() const {
  {
    const std::lock_guard lock(pool_->mutex_);
    if (file_) {
      pool_->open_files_.splice(pool_->open_files_.begin(), pool_->open_files_, place_);
      return file_;
    }
  }
  QUARRY_ASSIGN_OR_RETURN(RandomAccessFile opened, open_());
  if (opened.identity() != identity_)
    return DataLoss("\"{}\" was replaced during the read; read again", path_);
  return pool_->Keep(this, std::make_shared<const RandomAccessFile>(std::move(opened)));
}

/// Keeps a file open, unless another thread has opened it meanwhile, and closes files beyond the limit.
std::shared_ptr<const RandomAccessFile> FilePool::Keep(const File* file,
                                                       std::shared_ptr<const RandomAccessFile> opened) {
  std::list<const File*> place{file};  // from here on nothing needs memory: a file and its place are one
  std::shared_ptr<const RandomAccessFile> closed;  // after the lock
  const std::lock_guard lock(mutex_);
  if (file->file_) return file->file_;
  file->file_ = opened;
  file->place_ = place.begin();
  open_files_.splice(open_files_.begin(), place);
  if (open_files_.size() > most_) {  // by one
    closed = std::move(open_files_.back()->file_);
    open_files_.pop_back();
  }
  return opened;
}

std::size_t FilePool::size() const {
  const std::lock_guard lock(mutex_);
  return open_files_.size();
}

}  // namespace quarry
