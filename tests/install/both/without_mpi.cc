#include "writer/convert/convert.h"

int WithoutMpi() {
  quarry::writer::WriteReport report;
  return quarry::writer::WriteDataset(MPI_COMM_WORLD, {}, &report).ok() ? 0 : 1;
}
