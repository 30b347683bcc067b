// In-situ writing with MPI, in a program that has the converter without MPI too: it must not link.
#include "quarry/quarry_insitu.h"

int WithoutMpi();

int main() { return quarry_insitu_start(nullptr) + WithoutMpi(); }
