// In place of insitu.cc, where lbm is built without Quarry.

#include "dump.h"
#include "insitu.h"

namespace lbm {

struct InsituWriter::State {};

InsituWriter::InsituWriter(const Domain&, const std::string&, double) {
  throw IoError("--insitu needs Quarry; build lbm as a part of it");
}
InsituWriter::~InsituWriter() = default;
void InsituWriter::Write(int, const Fields&) {}
void InsituWriter::Close() {}

}  // namespace lbm
