! Spreads heat in a periodic box, on a three-dimensional grid of processes. Writes its steps in situ, and the
! last one as a raw file as well, for comparison.
!
!   mpirun -n 4 heat heat.quarry heat.raw
!
! Prints the messages of the library and ends with 1 on any error.
program heat
  use mpi
  use, intrinsic :: iso_c_binding
  use, intrinsic :: ieee_arithmetic
  use quarry_insitu
  implicit none

  integer, parameter :: cells(3) = [48, 40, 33]  ! of the whole box
  integer, parameter :: steps = 60, every = 20
  real(c_double), parameter :: conduction = 0.1_c_double, tolerance = 1e-5_c_double

  real(c_double), allocatable, target :: t(:, :, :), next(:, :, :)  ! with one layer of ghosts
  character(len=1024) :: dataset, raw
  integer :: cart, rank, ranks, processes(3), place(3), first(3), last(3), n(3), step, error
  logical :: failed

  call MPI_Init(error)
  call get_command_argument(1, dataset)
  call get_command_argument(2, raw)
  call divide()
  call initialise()
  failed = .not. simulate()
  call dump()
  call MPI_Comm_free(cart, error)
  call MPI_Finalize(error)
  if (failed) stop 1

contains

  ! This process has cells first to last - 1 of each axis, counted from 0.
  subroutine divide()
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
    processes = 0
    call MPI_Dims_create(ranks, 3, processes, error)
    call MPI_Cart_create(MPI_COMM_WORLD, 3, processes, [.true., .true., .true.], .false., cart, error)
    call MPI_Comm_rank(cart, rank, error)
    call MPI_Cart_coords(cart, rank, 3, place, error)
    first = cells*place/processes
    last = cells*(place + 1)/processes
    n = last - first
  end subroutine

  subroutine initialise()
    integer :: i, j, k
    real(c_double) :: x(3)
    allocate (t(0:n(1) + 1, 0:n(2) + 1, 0:n(3) + 1), source=0.0_c_double)
    allocate (next, mold=t)
    do k = 1, n(3)
      do j = 1, n(2)
        do i = 1, n(1)
          x = (real(first + [i, j, k], c_double) - 0.5_c_double)/cells - 0.4_c_double
          ! No exp: vectorised, it rounds differently than in the tails of loops, which depend on the ranks.
          t(i, j, k) = 1/(1 + 40*sum(x**2))
        end do
      end do
    end do
  end subroutine

  logical function simulate() result(good)
    type(c_ptr) :: run
    good = open_dataset(run)
    do step = 1, steps
      call exchange_ghosts()
      call conduct()
      if (good .and. mod(step, every) == 0) good = write_step(run)
    end do
    if (good) good = check(run, quarry_insitu_close(run))
    call quarry_insitu_free(run)
  end function

  logical function open_dataset(run) result(good)
    type(c_ptr), intent(out) :: run
    integer(c_int64_t) :: begin(3), end(3)
    integer(c_int) :: ignored
    integer :: i
    begin = first
    end = last
    good = check(run, quarry_insitu_open(cart, dataset, QUARRY_INSITU_CREATE, run))
    ! An error in a declaration is the error of the start, too.
    ignored = quarry_insitu_set_grid(run, int(cells, c_int64_t))
    ignored = quarry_insitu_set_patch(run, int([16, 16, 16], c_int64_t), 0)
    ignored = quarry_insitu_set_payload_order(run, "coarse")
    ignored = quarry_insitu_add_field(run, "temperature", QUARRY_FLOAT64, QUARRY_TOLERANCE, tolerance, "K")
    ignored = quarry_insitu_set_attribute(run, "", "title", "heat in a periodic box")
    ignored = quarry_insitu_set_attribute(run, "temperature", "conduction", conduction)
    ignored = quarry_insitu_set_axis(run, 2, "depth", "m")
    ignored = quarry_insitu_set_axis_attribute(run, 2, "positive", "down")
    ignored = quarry_insitu_set_texts(run, "layer", 2, [("layer "//achar(iachar("A") + mod(i, 26)), i=0, cells(3) - 1)])
    ignored = quarry_insitu_add_box(run, begin, end, begin - 1, end + 1, QUARRY_X_FASTEST)
    if (good) good = check(run, quarry_insitu_start(run))
  end function

  ! With ghosts: the library takes only the box.
  logical function write_step(run) result(good)
    type(c_ptr), intent(in) :: run
    good = check(run, quarry_insitu_begin_step(run, int(step, c_int64_t), real(step, c_double)))
    if (good) good = check(run, quarry_insitu_put(run, "temperature", t))
    if (good) good = check(run, quarry_insitu_end_step(run))
  end function

  ! Codes are the same on all processes, so all go on or none.
  logical function check(run, code)
    type(c_ptr), intent(in) :: run
    integer(c_int), intent(in) :: code
    check = code == 0
    if (.not. check .and. rank == 0) write (*, "(a)") "heat: "//quarry_insitu_last_message(run)
  end function

  subroutine conduct()
    integer :: i, j, k
    do k = 1, n(3)
      do j = 1, n(2)
        do i = 1, n(1)
          next(i, j, k) = t(i, j, k) + conduction*( &
                          t(i - 1, j, k) + t(i + 1, j, k) + t(i, j - 1, k) + t(i, j + 1, k) + &
                          t(i, j, k - 1) + t(i, j, k + 1) - 6*t(i, j, k))
        end do
      end do
    end do
    ! The ghosts of t hold anything: they must not reach the dataset.
    t = ieee_value(0.0_c_double, ieee_quiet_nan)
    t(1:n(1), 1:n(2), 1:n(3)) = next(1:n(1), 1:n(2), 1:n(3))
  end subroutine

  subroutine exchange_ghosts()
    call exchange_axis(0, t(1, :, :), t(n(1), :, :), t(0, :, :), t(n(1) + 1, :, :))
    call exchange_axis(1, t(:, 1, :), t(:, n(2), :), t(:, 0, :), t(:, n(2) + 1, :))
    call exchange_axis(2, t(:, :, 1), t(:, :, n(3)), t(:, :, 0), t(:, :, n(3) + 1))
  end subroutine

  subroutine exchange_axis(axis, low, high, ghost_low, ghost_high)
    integer, intent(in) :: axis
    real(c_double), intent(in) :: low(:, :), high(:, :)
    real(c_double), intent(inout) :: ghost_low(:, :), ghost_high(:, :)
    real(c_double) :: out(size(low, 1), size(low, 2)), in(size(low, 1), size(low, 2))
    integer :: below, above
    call MPI_Cart_shift(cart, axis, 1, below, above, error)
    out = high
    call MPI_Sendrecv(out, size(out), MPI_DOUBLE_PRECISION, above, 0, &
                      in, size(in), MPI_DOUBLE_PRECISION, below, 0, cart, MPI_STATUS_IGNORE, error)
    ghost_low = in
    out = low
    call MPI_Sendrecv(out, size(out), MPI_DOUBLE_PRECISION, below, 1, &
                      in, size(in), MPI_DOUBLE_PRECISION, above, 1, cart, MPI_STATUS_IGNORE, error)
    ghost_high = in
  end subroutine

  ! The last step as one file, x fastest.
  subroutine dump()
    integer :: file, block
    call MPI_Type_create_subarray(3, cells, n, first, MPI_ORDER_FORTRAN, MPI_DOUBLE_PRECISION, block, error)
    call MPI_Type_commit(block, error)
    call MPI_File_open(cart, trim(raw), ior(MPI_MODE_CREATE, MPI_MODE_WRONLY), MPI_INFO_NULL, file, error)
    call MPI_File_set_view(file, 0_MPI_OFFSET_KIND, MPI_DOUBLE_PRECISION, block, "native", MPI_INFO_NULL, error)
    next(1:n(1), 1:n(2), 1:n(3)) = t(1:n(1), 1:n(2), 1:n(3))
    call write_all(file, next(1:n(1), 1:n(2), 1:n(3)))
    call MPI_File_close(file, error)
    call MPI_Type_free(block, error)
  end subroutine

  subroutine write_all(file, samples)
    integer, intent(in) :: file
    real(c_double), intent(in), contiguous :: samples(:, :, :)
    call MPI_File_write_all(file, samples, size(samples), MPI_DOUBLE_PRECISION, MPI_STATUS_IGNORE, error)
  end subroutine

end program heat
