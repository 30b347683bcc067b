#include "tools/iobench/pipelines.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "quarry/base/checksum.h"
#include "quarry/base/file.h"
#include "writer/distribution/aggregation.h"
#include "writer/pipeline/comm.h"

namespace quarry::iobench {
namespace {

namespace fs = std::filesystem;

/// Where a pipeline puts file `number`.
fs::path FilePath(const fs::path& directory, Pipeline pipeline, std::size_t number) {
  return directory / fmt::format("{}-{:06}", Name(pipeline), number);
}

/// Success, or what the MPI library says about a file.
Status MpiStatus(int code, std::string_view action, const fs::path& path) {
  if (code == MPI_SUCCESS) return Status::Ok();
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  return InternalError("cannot {} \"{}\" with MPI-IO: {}; check space and permissions", action, path.string(),
                       std::string_view(text, static_cast<std::size_t>(length)));
}

/// Continues after an error: the calls are collective, and no rank may leave the others waiting in one.
/// @collective over the ranks of `file`
Status WriteRounds(MPI_Comm group, MPI_File file, const fs::path& path, std::uint64_t offset,
                   ByteSpan bytes) {
  constexpr std::size_t kLargestRound = std::size_t{1} << 30;  // counts are int
  Status status;
  std::uint64_t most = bytes.size();
  MPI_Allreduce(MPI_IN_PLACE, &most, 1, MPI_UINT64_T, MPI_MAX, group);
  for (std::uint64_t begin = 0; begin < most; begin += kLargestRound) {
    const ByteSpan rest = bytes.subspan(std::min<std::size_t>(begin, bytes.size()));
    const ByteSpan round = rest.first(std::min(rest.size(), kLargestRound));
    MPI_Status written;
    const int code = MPI_File_write_at_all(file, static_cast<MPI_Offset>(offset + begin), round.data(),
                                           static_cast<int>(round.size()), MPI_BYTE, &written);
    int count = 0;
    if (code == MPI_SUCCESS) MPI_Get_count(&written, MPI_BYTE, &count);
    if (!status.ok()) continue;
    status = MpiStatus(code, "write", path);
    if (status.ok() && static_cast<std::size_t>(count) != round.size()) {
      status = InternalError("only {} of {} bytes went to \"{}\" at {}; check the free space", count,
                             round.size(), path.string(), offset + begin);
    }
  }
  return status;
}

/// Open MPI 4 reports success when one of its own aggregators gets "File too large"; only the size tells.
Status CheckSize(MPI_File file, const fs::path& path, std::uint64_t expected) {
  MPI_Offset size = 0;
  QUARRY_RETURN_IF_ERROR(MpiStatus(MPI_File_get_size(file, &size), "find the size of", path));
  if (static_cast<std::uint64_t>(size) == expected) return Status::Ok();
  return InternalError(
      "\"{}\" has {} bytes instead of {} after a write that MPI-IO calls a success; check the "
      "free space",
      path.string(), size, expected);
}

/// One file of `size` bytes, by all ranks of `group` together. @collective over `group`
Status WriteCollectively(MPI_Comm group, const fs::path& path, std::uint64_t size, std::uint64_t offset,
                         ByteSpan bytes) {
  MPI_File file;
  const int opened = MPI_File_open(group, path.c_str(), MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY,
                                   MPI_INFO_NULL, &file);
  // If only some ranks have the file, it stays open: closing is collective.
  QUARRY_RETURN_IF_ERROR(writer::AgreeOnStatus(group, MpiStatus(opened, "create", path)));
  Status status = WriteRounds(group, file, path, offset, bytes);
  const int synced = MPI_File_sync(file);
  if (status.ok()) status = MpiStatus(synced, "sync", path);
  if (status.ok()) status = CheckSize(file, path, size);
  const int closed = MPI_File_close(&file);
  if (status.ok()) status = MpiStatus(closed, "close", path);
  return status;
}

/// Bytes of the units in a file before those of `rank`.
std::uint64_t OffsetOf(int rank, const FileLayout& layout, const Load& load) {
  std::uint64_t offset = 0;
  for (const std::size_t unit : layout.units) {
    if (load.owner[unit] < rank) offset += load.bytes[unit];
  }
  return offset;
}

/// One run of a pipeline: prepared as far as possible before it is timed.
class Writing {
 public:
  virtual ~Writing() = default;
  /// All collective communication has ended on return, whatever the status.
  virtual Status Write() = 0;
};

class FilePerProcess : public Writing {
 public:
  FilePerProcess(fs::path path, const RankData& data) : path_(std::move(path)), data_(data) {}

  Status Write() override {
    QUARRY_ASSIGN_OR_RETURN(WritableFile file, WritableFile::Create(path_));
    QUARRY_RETURN_IF_ERROR(file.Append(data_.bytes));
    return file.SyncAndClose();
  }

 private:
  fs::path path_;
  const RankData& data_;
};

class Collective : public Writing {
 public:
  /// @collective over `comm`
  /// @param groups  files; ranks of a group write one together
  Collective(MPI_Comm comm, const fs::path& directory, Pipeline pipeline,
             const std::vector<FileLayout>& layouts, const RankData& data)
      : data_(data) {
    const int ranks = writer::Size(comm);
    const int rank = writer::Rank(comm);
    const int groups = static_cast<int>(layouts.size());
    int group = 0;
    while (GroupBegin(group + 1, groups, ranks) <= rank) ++group;
    path_ = FilePath(directory, pipeline, static_cast<std::size_t>(group));
    const FileLayout& layout = layouts[static_cast<std::size_t>(group)];
    size_ = layout.bytes;
    offset_ = OffsetOf(rank, layout, data.load);
    MPI_Comm_split(comm, group, rank, &group_);
  }
  ~Collective() override { MPI_Comm_free(&group_); }
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;

  Status Write() override { return WriteCollectively(group_, path_, size_, offset_, data_.bytes); }

 private:
  const RankData& data_;
  fs::path path_;
  std::uint64_t size_ = 0;
  std::uint64_t offset_ = 0;
  MPI_Comm group_ = MPI_COMM_NULL;
};

/// Ranks send their units to the aggregators of the files without a copy; an aggregator has all of a file
/// before it writes. @source Fan et al., section IV.B and IV.C
class Aggregation : public Writing {
 public:
  Aggregation(MPI_Comm comm, const fs::path& directory, Pipeline pipeline,
              const std::vector<FileLayout>& layouts, const RankData& data)
      : comm_(comm), directory_(directory), pipeline_(pipeline), layouts_(layouts), data_(data) {}

  Status Write() override {
    std::vector<MPI_Request> requests;
    std::vector<Received> received;
    // Both sides walk files and units in order, so that messages between two ranks match as they are posted.
    for (std::size_t f = 0; f < layouts_.size(); ++f) {
      const int aggregator = distribution::AggregatorRank(f, layouts_.size(), writer::Size(comm_));
      if (aggregator == writer::Rank(comm_)) {
        received.push_back({f, Receive(layouts_[f], &requests)});
      } else {
        Send(layouts_[f], aggregator, &requests);
      }
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    for (const Received& r : received) {
      QUARRY_ASSIGN_OR_RETURN(WritableFile file,
                              WritableFile::Create(FilePath(directory_, pipeline_, r.file)));
      QUARRY_RETURN_IF_ERROR(file.Append(r.bytes));
      QUARRY_RETURN_IF_ERROR(file.SyncAndClose());
    }
    return Status::Ok();
  }

 private:
  static constexpr int kTag = 0;

  struct Received {
    std::size_t file;
    Bytes bytes;
  };

  ByteSpan Mine(std::size_t unit) const {
    const auto at = std::lower_bound(data_.units.begin(), data_.units.end(), unit);
    return data_.Unit(static_cast<std::size_t>(at - data_.units.begin()));
  }

  /// The memory that holds the units of a file when `requests` are done.
  Bytes Receive(const FileLayout& layout, std::vector<MPI_Request>* requests) const {
    Bytes bytes(layout.bytes);
    std::byte* next = bytes.data();
    for (const std::size_t unit : layout.units) {
      const std::uint64_t size = data_.load.bytes[unit];
      const int owner = data_.load.owner[unit];
      if (owner == writer::Rank(comm_)) {
        const ByteSpan mine = Mine(unit);
        std::copy(mine.begin(), mine.end(), next);
      } else {
        requests->emplace_back();
        MPI_Irecv(next, static_cast<int>(size), MPI_BYTE, owner, kTag, comm_, &requests->back());
      }
      next += size;
    }
    return bytes;
  }

  void Send(const FileLayout& layout, int aggregator, std::vector<MPI_Request>* requests) const {
    for (const std::size_t unit : layout.units) {
      if (data_.load.owner[unit] != writer::Rank(comm_)) continue;
      const ByteSpan bytes = Mine(unit);
      requests->emplace_back();
      MPI_Isend(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, aggregator, kTag, comm_,
                &requests->back());
    }
  }

  MPI_Comm comm_;
  fs::path directory_;
  Pipeline pipeline_;
  const std::vector<FileLayout>& layouts_;
  const RankData& data_;
};

/// @collective over `comm`
std::unique_ptr<Writing> Prepare(MPI_Comm comm, const fs::path& directory, Pipeline pipeline,
                                 const std::vector<FileLayout>& layouts, const RankData& data) {
  switch (pipeline) {
    case Pipeline::kFilePerProcess:
      return std::make_unique<FilePerProcess>(
          FilePath(directory, pipeline, static_cast<std::size_t>(writer::Rank(comm))), data);
    case Pipeline::kCollective:
    case Pipeline::kGroupCollective:
      return std::make_unique<Collective>(comm, directory, pipeline, layouts, data);
    case Pipeline::kEqual:
    case Pipeline::kBalanced:
      break;
  }
  return std::make_unique<Aggregation>(comm, directory, pipeline, layouts, data);
}

/// Size of file `f`, and in it the units that rank `of` had.
Status VerifyFile(const fs::path& path, const FileLayout& layout, const RankData& data, bool check_size,
                  int of) {
  const Load& load = data.load;
  const bool concerned = std::any_of(layout.units.begin(), layout.units.end(),
                                     [&](std::size_t unit) { return load.owner[unit] == of; });
  if (!check_size && !concerned) return Status::Ok();
  QUARRY_ASSIGN_OR_RETURN(const RandomAccessFile file, RandomAccessFile::Open(path));
  if (check_size && file.size() != layout.bytes) {
    return DataLoss("\"{}\" has {} bytes instead of {}; the file system has lost data", path.string(),
                    file.size(), layout.bytes);
  }
  std::uint64_t offset = 0;
  for (const std::size_t unit : layout.units) {
    if (load.owner[unit] == of) {
      Bytes bytes(load.bytes[unit]);
      QUARRY_RETURN_IF_ERROR(file.ReadAt(offset, bytes));
      if (Checksum(bytes) != data.checksums[unit]) {
        return DataLoss("bytes {}..{} of \"{}\" are not what was written; the file system has lost data",
                        offset, offset + load.bytes[unit], path.string());
      }
    }
    offset += load.bytes[unit];
  }
  return Status::Ok();
}

}  // namespace

Result<RankData> MakeRankData(MPI_Comm comm, const Load& load) {
  RankData data{load, load.UnitsOf(writer::Rank(comm)), {}, {}, {}};
  std::uint64_t total = 0;
  for (const std::size_t unit : data.units) total += load.bytes[unit];
  data.bytes.reserve(total);
  std::vector<std::uint64_t> checksums;
  for (const std::size_t unit : data.units) {
    const Bytes bytes = MakeUnit(unit, load.bytes[unit]);
    data.offsets.push_back(data.bytes.size());
    data.bytes.insert(data.bytes.end(), bytes.begin(), bytes.end());
    checksums.push_back(Checksum(bytes));
  }
  // They arrive by rank, and those of a rank in the order of its units.
  QUARRY_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> by_rank,
                          writer::GatherEverywhere(comm, checksums));
  std::vector<std::size_t> next(static_cast<std::size_t>(writer::Size(comm)) + 1, 0);
  for (const int owner : load.owner) ++next[static_cast<std::size_t>(owner) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  for (const int owner : load.owner)
    data.checksums.push_back(by_rank[next[static_cast<std::size_t>(owner)]++]);
  return data;
}

Result<double> TimePipeline(MPI_Comm comm, const fs::path& directory, Pipeline pipeline,
                            const std::vector<FileLayout>& layouts, const RankData& data) {
  const std::unique_ptr<Writing> writing = Prepare(comm, directory, pipeline, layouts, data);
  MPI_Barrier(comm);
  const double start = MPI_Wtime();
  const Status status = writing->Write();
  const double seconds = MPI_Wtime() - start;
  QUARRY_RETURN_IF_ERROR(writer::AgreeOnStatus(comm, status));
  return writer::MaxOverRanks(comm, seconds);
}

Status VerifyFiles(MPI_Comm comm, const fs::path& directory, Pipeline pipeline,
                   const std::vector<FileLayout>& layouts, const RankData& data) {
  const int rank = writer::Rank(comm);
  const int ranks = writer::Size(comm);
  Status status;
  for (std::size_t f = 0; f < layouts.size() && status.ok(); ++f) {
    const bool check_size = static_cast<int>(f % static_cast<std::size_t>(ranks)) == rank;
    status = VerifyFile(FilePath(directory, pipeline, f), layouts[f], data, check_size, (rank + 1) % ranks);
  }
  return writer::AgreeOnStatus(comm, status);
}

Status RemoveFiles(MPI_Comm comm, const fs::path& directory, Pipeline pipeline, std::size_t files) {
  Status status;
  const auto ranks = static_cast<std::size_t>(writer::Size(comm));
  for (auto f = static_cast<std::size_t>(writer::Rank(comm)); f < files; f += ranks) {
    const fs::path path = FilePath(directory, pipeline, f);
    std::error_code error;
    fs::remove(path, error);
    if (error && status.ok()) status = ErrnoStatus(error.value(), "remove", path.string());
  }
  return writer::AgreeOnStatus(comm, status);
}

}  // namespace quarry::iobench
