#pragma once

#include <mpi.h>

#include <filesystem>

#include "tools/iobench/file_layout.h"

/// The five pipelines over MPI, and the comparison of what they wrote.
namespace quarry::iobench {

/// The load, and this rank's part of it.
struct RankData {
  const Load& load;
  std::vector<std::size_t> units;        ///< units of this rank, ascending
  std::vector<std::size_t> offsets;      ///< place of each of them in `bytes`
  Bytes bytes;                           ///< one after the other
  std::vector<std::uint64_t> checksums;  ///< checksums of all units of all ranks

  ByteSpan Unit(std::size_t i) const { return ByteSpan(bytes).subspan(offsets[i], load.bytes[units[i]]); }
};

/// @collective over `comm`
Result<RankData> MakeRankData(MPI_Comm comm, const Load& load);

/// Writes all files of a pipeline, durably (fsync, MPI_File_sync), and says how long the slowest rank took
/// from a barrier on. The files must not exist.
/// @returns seconds, or the same error on every rank
/// @collective over `comm`
Result<double> TimePipeline(MPI_Comm comm, const std::filesystem::path& directory, Pipeline pipeline,
                            const std::vector<FileLayout>& layouts, const RankData& data);

/// Reads all files back, each unit on a rank that did not have it, and compares sizes and checksums.
/// @errors kDataLoss; the same on every rank
/// @collective over `comm`
Status VerifyFiles(MPI_Comm comm, const std::filesystem::path& directory, Pipeline pipeline,
                   const std::vector<FileLayout>& layouts, const RankData& data);

/// @collective over `comm`
Status RemoveFiles(MPI_Comm comm, const std::filesystem::path& directory, Pipeline pipeline,
                   std::size_t files);

}  // namespace quarry::iobench
