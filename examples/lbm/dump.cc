#include "dump.h"

#include <mpi.h>

#include <array>
#include <bit>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <system_error>
#include <vector>

namespace lbm {
namespace {

static_assert(std::endian::native == std::endian::little,
              "dumps are little-endian and written as they are in memory");

// Throws on all ranks if `failed` anywhere, with the lowest such rank's
// `message`.
void AgreeOnError(MPI_Comm comm, bool failed, std::string message) {
  int size = 0;
  int rank = 0;
  MPI_Comm_size(comm, &size);
  MPI_Comm_rank(comm, &rank);
  int failed_rank = failed ? rank : size;
  MPI_Allreduce(MPI_IN_PLACE, &failed_rank, 1, MPI_INT, MPI_MIN, comm);
  if (failed_rank == size) return;

  int length = static_cast<int>(message.size());
  MPI_Bcast(&length, 1, MPI_INT, failed_rank, comm);
  message.resize(length);
  MPI_Bcast(message.data(), length, MPI_CHAR, failed_rank, comm);
  throw IoError(message);
}

// MPI's own text for an error code, which may span lines.
std::string ErrorText(int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text;
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  std::string line(text.data(), length);
  return line.substr(0, line.find('\n'));
}

void Check(MPI_Comm comm, int code, const std::string& what) {
  const bool failed = code != MPI_SUCCESS;
  AgreeOnError(comm, failed, failed ? what + ": " + ErrorText(code) : "");
}

// A file that all ranks of a communicator write together.
class SharedFile {
 public:
  SharedFile(MPI_Comm comm, const std::string& path) : comm_(comm), path_(path) {
    // Files report errors to the caller unless someone changed the default.
    MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
    const int code =
        MPI_File_open(comm, path.c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file_);
    Check(comm, code, "cannot create '" + path + "'");
  }

  // Reached open only after an error, which has been reported already.
  ~SharedFile() {
    if (file_ != MPI_FILE_NULL) MPI_File_close(&file_);
  }

  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  void Resize(MPI_Offset bytes) {
    Check(comm_, MPI_File_set_size(file_, bytes), "cannot resize '" + path_ + "'");
  }

  void SetView(MPI_Datatype element, MPI_Datatype view) {
    Check(comm_, MPI_File_set_view(file_, 0, element, view, "native", MPI_INFO_NULL),
          "cannot set the layout of '" + path_ + "'");
  }

  /// Writes the values that `block` takes out of `values`.
  void Write(const std::vector<float>& values, MPI_Datatype block) {
    const std::string what = "cannot write '" + path_ + "'";
    MPI_Status status;
    Check(comm_, MPI_File_write_all(file_, values.data(), 1, block, &status), what);
    int written = 0;
    MPI_Get_count(&status, block, &written);
    AgreeOnError(comm_, written != 1, what + ": short write");
  }

  // Some MPI libraries report success for collective writes that the disk had
  // no space for (Open MPI 4.1 does), so only reading back can tell.
  void Verify(const Domain& domain, const std::vector<float>& values, MPI_Datatype block) {
    const std::string what = "cannot write '" + path_ + "'";
    Check(comm_, MPI_File_sync(file_), what);
    // Unread samples stay NaN, which equals nothing.
    std::vector<float> stored(values.size(), std::numeric_limits<float>::quiet_NaN());
    Check(comm_, MPI_File_read_at_all(file_, 0, stored.data(), 1, block, MPI_STATUS_IGNORE),
          "cannot read back '" + path_ + "'");
    bool lost = false;
    ForEachOwnCell(domain, [&](int x, int y, int z) {
      const std::ptrdiff_t cell = domain.Index(x, y, z);
      lost = lost || stored[cell] != values[cell];
    });
    AgreeOnError(comm_, lost, what + ": data lost, the disk may be full");
  }

  void Close() { Check(comm_, MPI_File_close(&file_), "cannot close '" + path_ + "'"); }

 private:
  MPI_Comm comm_;
  std::string path_;
  MPI_File file_ = MPI_FILE_NULL;
};

// Where a rank's block lies in a larger array.
class BlockType {
 public:
  BlockType(const Int3& array, const Int3& cells, const Int3& first) {
    MPI_Type_create_subarray(3, array.data(), cells.data(), first.data(), MPI_ORDER_FORTRAN, MPI_FLOAT,
                             &type_);
    MPI_Type_commit(&type_);
  }
  ~BlockType() { MPI_Type_free(&type_); }

  BlockType(const BlockType&) = delete;
  BlockType& operator=(const BlockType&) = delete;

  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

std::string StepDirectory(const std::string& output, int step) {
  std::array<char, 16> name;
  std::snprintf(name.data(), name.size(), "step%06d", step);
  return (std::filesystem::path(output) / name.data()).string();
}

std::string FileName(const Field& field, const Int3& cells) {
  return "lbm-" + std::string(field.name) + "-[" + std::to_string(cells[0]) + "-" + std::to_string(cells[1]) +
         "-" + std::to_string(cells[2]) + "]-Float32.raw";
}

void WriteField(const Domain& domain, const std::string& path, const Field& field) {
  const auto [nx, ny, nz] = domain.global_cells();
  const MPI_Offset bytes = static_cast<MPI_Offset>(sizeof(float)) * nx * ny * nz;
  const Int3& cells = domain.cells();
  const BlockType in_file(domain.global_cells(), cells, domain.offset());
  const BlockType in_memory({cells[0] + 2, cells[1] + 2, cells[2] + 2}, cells, {1, 1, 1});
  SharedFile file(domain.comm(), path);
  file.Resize(bytes);
  file.SetView(MPI_FLOAT, in_file.get());
  file.Write(field.values, in_memory.get());
  file.Verify(domain, field.values, in_memory.get());
  file.Close();
}

}  // namespace

void CreateDirectory(const Domain& domain, const std::string& path) {
  std::error_code error;
  if (domain.rank() == 0) std::filesystem::create_directories(path, error);
  AgreeOnError(domain.comm(), static_cast<bool>(error),
               "cannot create directory '" + path + "': " + error.message());
}

void WriteDump(const Domain& domain, const std::string& output, int step, const Fields& fields) {
  const std::string directory = StepDirectory(output, step);
  CreateDirectory(domain, directory);
  for (const Field& field : fields) {
    const std::string name = FileName(field, domain.global_cells());
    WriteField(domain, (std::filesystem::path(directory) / name).string(), field);
  }
}

}  // namespace lbm
