! Every rank owns a part of the z axis of 13x7x6 samples, each x + 100 y + 10000 z: tests/install/cpp/expected.h.
program insitu
  use mpi
  use, intrinsic :: iso_c_binding
  use quarry_insitu
  implicit none
  integer(c_int64_t), parameter :: dims(3) = [13_c_int64_t, 7_c_int64_t, 6_c_int64_t]
  integer(c_int64_t) :: begin(3), end(3), x, y, z
  real(c_double), allocatable, target :: samples(:, :, :)
  character(len=1024) :: path
  type(c_ptr) :: run
  integer(c_int) :: code
  integer :: rank, ranks, error

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
  call get_command_argument(1, path)
  begin = [0_c_int64_t, 0_c_int64_t, dims(3)*rank/ranks]
  end = [dims(1), dims(2), dims(3)*(rank + 1)/ranks]
  allocate (samples(dims(1), dims(2), end(3) - begin(3)))
  do z = begin(3), end(3) - 1
    do y = 0, dims(2) - 1
      do x = 0, dims(1) - 1
        samples(x + 1, y + 1, z - begin(3) + 1) = real(x + 100*y + 10000*z, c_double)
      end do
    end do
  end do
  code = quarry_insitu_open(MPI_COMM_WORLD, path, QUARRY_INSITU_CREATE, run)
  code = quarry_insitu_set_grid(run, dims)
  code = quarry_insitu_add_field(run, "height", QUARRY_FLOAT64, QUARRY_LOSSLESS, 0.0_c_double, "m")
  code = quarry_insitu_add_box(run, begin, end, begin, end, QUARRY_X_FASTEST)
  code = quarry_insitu_start(run)
  if (code == 0) code = quarry_insitu_begin_step(run, 0_c_int64_t, 0.0_c_double)
  if (code == 0) code = quarry_insitu_put(run, "height", samples)
  if (code == 0) code = quarry_insitu_end_step(run)
  if (code == 0) code = quarry_insitu_close(run)
  if (code /= 0) print *, quarry_insitu_last_message(run)
  call quarry_insitu_free(run)
  call MPI_Finalize(error)
  if (code /= 0) stop 1
end program
