// In place of insitu.cc, where lbm is built without Quarry.

#include "dump.h"
#include "insitu.h"

namespace lbm {

struct WriterRanks::State {
  MPI_Comm world;
};

WriterRanks::WriterRanks(MPI_Comm world, int count) : state_(new State{world}) {
  if (count > 0) throw IoError("--intransit needs Quarry; build lbm as a part of it");
}
WriterRanks::~WriterRanks() = default;
bool WriterRanks::writes() const { return false; }
MPI_Comm WriterRanks::simulation() const { return state_->world; }
void WriterRanks::Serve() {}

struct InsituWriter::State {};

InsituWriter::InsituWriter(const WriterRanks&, const Domain&, const std::string&, double) {
  throw IoError("--insitu needs Quarry; build lbm as a part of it");
}
InsituWriter::~InsituWriter() = default;
void InsituWriter::Write(int, const Fields&) {}
void InsituWriter::Close() {}

}  // namespace lbm
