! In-situ writing for Fortran: quarry_insitu.h, with Fortran's strings, communicators and arrays.
! docs/insitu.md shows how.
!
! Every function returns 0 or an error code; quarry_insitu_last_message says what is wrong. Boxes are half-open
! and count from 0, as in C: the elements a(1:n) of the first rank are the box 0 to n.
module quarry_insitu
  use, intrinsic :: iso_c_binding
  implicit none
  private

  integer(c_int), parameter, public :: QUARRY_INSITU_CREATE = 0, QUARRY_INSITU_APPEND = 1, &
                                       QUARRY_INSITU_RESUME = 2
  integer(c_int), parameter, public :: QUARRY_INSITU_OK = 0, QUARRY_INSITU_UNKNOWN = 2, &
                                       QUARRY_INSITU_INVALID_ARGUMENT = 3, &
                                       QUARRY_INSITU_NOT_FOUND = 5, QUARRY_INSITU_ALREADY_EXISTS = 6, &
                                       QUARRY_INSITU_FAILED_PRECONDITION = 9, QUARRY_INSITU_ABORTED = 10, &
                                       QUARRY_INSITU_OUT_OF_RANGE = 11, &
                                       QUARRY_INSITU_INTERNAL = 13, QUARRY_INSITU_UNAVAILABLE = 14, &
                                       QUARRY_INSITU_DATA_LOSS = 15
  integer(c_int), parameter, public :: QUARRY_FLOAT32 = 1, QUARRY_FLOAT64 = 2, QUARRY_INT8 = 3, &
                                       QUARRY_UINT8 = 4, QUARRY_INT16 = 5, QUARRY_UINT16 = 6, &
                                       QUARRY_INT32 = 7, QUARRY_UINT32 = 8, &
                                       QUARRY_INT64 = 9, QUARRY_UINT64 = 10
  integer(c_int), parameter, public :: QUARRY_LOSSLESS = 0, QUARRY_TOLERANCE = 1, QUARRY_RELATIVE = 2, &
    QUARRY_POINTWISE_RELATIVE = 3
  integer(c_int), parameter, public :: QUARRY_X_FASTEST = 0, QUARRY_Z_FASTEST = 1

  public :: quarry_insitu_open, quarry_insitu_set_grid, quarry_insitu_set_axes, quarry_insitu_set_axis, &
            quarry_insitu_set_positions, quarry_insitu_set_time_unit, quarry_insitu_add_complex_field, &
            quarry_insitu_set_attribute, quarry_insitu_set_axis_attribute, quarry_insitu_set_texts, &
            quarry_insitu_set_patch, quarry_insitu_set_files, quarry_insitu_set_payload_order, quarry_insitu_set_memory, &
            quarry_insitu_add_field, &
            quarry_insitu_set_fill, quarry_insitu_set_codec, quarry_insitu_set_keyframe, quarry_insitu_add_box, &
            quarry_insitu_add_strided_box, quarry_insitu_start, quarry_insitu_begin_step, quarry_insitu_put, &
            quarry_insitu_end_step, quarry_insitu_close, quarry_insitu_free, quarry_insitu_last_message, &
            quarry_insitu_take_warning

  ! An array for the only box of this rank, or addresses (c_loc) for any number of boxes.
  interface quarry_insitu_put
    module procedure put_real32, put_real64, put_addresses
  end interface

  ! A text, a number or a list of numbers. field: "" for the dataset.
  interface quarry_insitu_set_attribute
    module procedure set_text_attribute, set_number_attribute, set_numbers_attribute
  end interface

  interface
    integer(c_int) function open_f(comm, path, mode, run) bind(c, name="quarry_insitu_open_f")
      import :: c_int, c_char, c_ptr
      integer, value :: comm
      character(kind=c_char), intent(in) :: path(*)
      integer(c_int), value :: mode
      type(c_ptr), intent(out) :: run
    end function
    integer(c_int) function quarry_insitu_set_grid(run, dims) bind(c)
      import :: c_int, c_ptr, c_int64_t
      type(c_ptr), value :: run
      integer(c_int64_t), intent(in) :: dims(3)
    end function
    integer(c_int) function quarry_insitu_set_axes(run, origin, spacing) bind(c)
      import :: c_int, c_ptr, c_double
      type(c_ptr), value :: run
      real(c_double), intent(in) :: origin(3), spacing(3)
    end function
    integer(c_int) function set_axis_c(run, axis, name, units) bind(c, name="quarry_insitu_set_axis")
      import :: c_int, c_ptr, c_char
      type(c_ptr), value :: run
      integer(c_int), value :: axis
      character(kind=c_char), intent(in) :: name(*), units(*)
    end function
    integer(c_int) function set_positions_c(run, axis, count, positions) &
        bind(c, name="quarry_insitu_set_positions")
      import :: c_int, c_ptr, c_int64_t, c_double
      type(c_ptr), value :: run
      integer(c_int), value :: axis
      integer(c_int64_t), value :: count
      real(c_double), intent(in) :: positions(*)
    end function
    integer(c_int) function set_attribute_c(run, field, name, text) bind(c, name="quarry_insitu_set_attribute")
      import :: c_int, c_ptr, c_char
      type(c_ptr), value :: run, field
      character(kind=c_char), intent(in) :: name(*), text(*)
    end function
    integer(c_int) function set_numbers_c(run, field, name, count, numbers) &
        bind(c, name="quarry_insitu_set_numbers")
      import :: c_int, c_ptr, c_char, c_int64_t, c_double
      type(c_ptr), value :: run, field
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), value :: count
      real(c_double), intent(in) :: numbers(*)
    end function
    integer(c_int) function set_axis_attribute_c(run, axis, name, text) &
        bind(c, name="quarry_insitu_set_axis_attribute")
      import :: c_int, c_ptr, c_char
      type(c_ptr), value :: run
      integer(c_int), value :: axis
      character(kind=c_char), intent(in) :: name(*), text(*)
    end function
    integer(c_int) function set_texts_c(run, name, axis, count, texts) bind(c, name="quarry_insitu_set_texts")
      import :: c_int, c_ptr, c_char, c_int64_t
      type(c_ptr), value :: run
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: axis
      integer(c_int64_t), value :: count
      type(c_ptr), intent(in) :: texts(*)
    end function
    integer(c_int) function add_complex_field_c(run, name, type, bound_kind, bound, units) &
        bind(c, name="quarry_insitu_add_complex_field")
      import :: c_int, c_ptr, c_char, c_double
      type(c_ptr), value :: run
      character(kind=c_char), intent(in) :: name(*), units(*)
      integer(c_int), value :: type, bound_kind
      real(c_double), value :: bound
    end function
    integer(c_int) function quarry_insitu_set_patch(run, patch, levels) bind(c)
      import :: c_int, c_ptr, c_int64_t
      type(c_ptr), value :: run
      integer(c_int64_t), intent(in) :: patch(3)
      integer(c_int), value :: levels
    end function
    integer(c_int) function quarry_insitu_set_files(run, files) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: run
      integer(c_int), value :: files
    end function
    integer(c_int) function quarry_insitu_set_memory(run, bytes) bind(c)
      import :: c_int, c_ptr, c_int64_t
      type(c_ptr), value :: run
      integer(c_int64_t), value :: bytes
    end function
    integer(c_int) function add_field_c(run, name, type, bound_kind, bound, units) &
        bind(c, name="quarry_insitu_add_field")
      import :: c_int, c_ptr, c_char, c_double
      type(c_ptr), value :: run
      character(kind=c_char), intent(in) :: name(*), units(*)
      integer(c_int), value :: type, bound_kind
      real(c_double), value :: bound
    end function
    integer(c_int) function set_fill_c(run, field, fill) bind(c, name="quarry_insitu_set_fill")
      import :: c_int, c_ptr, c_char, c_double
      type(c_ptr), value :: run
      character(kind=c_char), intent(in) :: field(*)
      real(c_double), value :: fill
    end function
    integer(c_int) function set_payload_order_c(run, order) bind(c, name="quarry_insitu_set_payload_order")
      import :: c_int, c_ptr, c_char
      type(c_ptr), value :: run
      character(kind=c_char), intent(in) :: order(*)
    end function
    integer(c_int) function set_codec_c(run, field, codec) bind(c, name="quarry_insitu_set_codec")
      import :: c_int, c_ptr, c_char
      type(c_ptr), value :: run
      character(kind=c_char), intent(in) :: field(*), codec(*)
    end function
    integer(c_int) function set_time_unit_c(run, units, calendar) bind(c, name="quarry_insitu_set_time_unit")
      import :: c_int, c_ptr, c_char
      type(c_ptr), value :: run
      character(kind=c_char), intent(in) :: units(*), calendar(*)
    end function
    integer(c_int) function set_keyframe_c(run, field, steps) bind(c, name="quarry_insitu_set_keyframe")
      import :: c_int, c_ptr, c_char
      type(c_ptr), value :: run
      character(kind=c_char), intent(in) :: field(*)
      integer(c_int), value :: steps
    end function
    integer(c_int) function quarry_insitu_add_box(run, begin, end, array_begin, array_end, order) bind(c)
      import :: c_int, c_ptr, c_int64_t
      type(c_ptr), value :: run
      integer(c_int64_t), intent(in) :: begin(3), end(3), array_begin(3), array_end(3)
      integer(c_int), value :: order
    end function
    integer(c_int) function quarry_insitu_add_strided_box(run, begin, end, stride) bind(c)
      import :: c_int, c_ptr, c_int64_t
      type(c_ptr), value :: run
      integer(c_int64_t), intent(in) :: begin(3), end(3), stride(3)
    end function
    integer(c_int) function quarry_insitu_start(run) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: run
    end function
    integer(c_int) function quarry_insitu_begin_step(run, step, time) bind(c)
      import :: c_int, c_ptr, c_int64_t, c_double
      type(c_ptr), value :: run
      integer(c_int64_t), value :: step
      real(c_double), value :: time
    end function
    integer(c_int) function put_c(run, field, type, boxes, address) bind(c, name="quarry_insitu_put")
      import :: c_int, c_ptr, c_char
      type(c_ptr), value :: run
      character(kind=c_char), intent(in) :: field(*)
      integer(c_int), value :: type, boxes
      type(c_ptr), intent(in) :: address(*)
    end function
    integer(c_int) function quarry_insitu_end_step(run) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: run
    end function
    integer(c_int) function quarry_insitu_close(run) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: run
    end function
    subroutine quarry_insitu_free(run) bind(c)
      import :: c_ptr
      type(c_ptr), value :: run
    end subroutine
    type(c_ptr) function last_message_c(run) bind(c, name="quarry_insitu_last_message")
      import :: c_ptr
      type(c_ptr), value :: run
    end function
    type(c_ptr) function take_warning_c(run) bind(c, name="quarry_insitu_take_warning")
      import :: c_ptr
      type(c_ptr), value :: run
    end function
    integer(c_size_t) function strlen(text) bind(c)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
    end function
  end interface

contains

  ! comm: an integer handle (module mpi), or comm%MPI_VAL (module mpi_f08)
  integer(c_int) function quarry_insitu_open(comm, path, mode, run)
    integer, intent(in) :: comm
    character(len=*), intent(in) :: path
    integer(c_int), intent(in) :: mode
    type(c_ptr), intent(out) :: run
    quarry_insitu_open = open_f(comm, trim(path)//c_null_char, mode, run)
  end function

  integer(c_int) function quarry_insitu_add_field(run, name, type, bound_kind, bound, units)
    type(c_ptr), intent(in) :: run
    character(len=*), intent(in) :: name, units
    integer(c_int), intent(in) :: type, bound_kind
    real(c_double), intent(in) :: bound
    quarry_insitu_add_field = add_field_c(run, trim(name)//c_null_char, type, bound_kind, bound, &
                                          trim(units)//c_null_char)
  end function

  integer(c_int) function quarry_insitu_add_complex_field(run, name, type, bound_kind, bound, units)
    type(c_ptr), intent(in) :: run
    character(len=*), intent(in) :: name, units
    integer(c_int), intent(in) :: type, bound_kind
    real(c_double), intent(in) :: bound
    quarry_insitu_add_complex_field = add_complex_field_c(run, trim(name)//c_null_char, type, bound_kind, bound, &
                                                          trim(units)//c_null_char)
  end function

  ! axis: 0, 1 or 2
  integer(c_int) function quarry_insitu_set_axis(run, axis, name, units)
    type(c_ptr), intent(in) :: run
    integer(c_int), intent(in) :: axis
    character(len=*), intent(in) :: name, units
    quarry_insitu_set_axis = set_axis_c(run, axis, trim(name)//c_null_char, trim(units)//c_null_char)
  end function

  integer(c_int) function quarry_insitu_set_positions(run, axis, positions)
    type(c_ptr), intent(in) :: run
    integer(c_int), intent(in) :: axis
    real(c_double), intent(in) :: positions(:)
    quarry_insitu_set_positions = set_positions_c(run, axis, size(positions, kind=c_int64_t), positions)
  end function

  integer(c_int) function set_text_attribute(run, field, name, text)
    type(c_ptr), intent(in) :: run
    character(len=*), intent(in) :: field, name, text
    character(len=:), allocatable, target :: owner
    owner = trim(field)//c_null_char
    set_text_attribute = set_attribute_c(run, owner_of(owner), trim(name)//c_null_char, trim(text)//c_null_char)
  end function

  integer(c_int) function set_number_attribute(run, field, name, number)
    type(c_ptr), intent(in) :: run
    character(len=*), intent(in) :: field, name
    real(c_double), intent(in) :: number
    set_number_attribute = set_numbers_attribute(run, field, name, [number])
  end function

  integer(c_int) function set_numbers_attribute(run, field, name, numbers)
    type(c_ptr), intent(in) :: run
    character(len=*), intent(in) :: field, name
    real(c_double), intent(in) :: numbers(:)
    character(len=:), allocatable, target :: owner
    owner = trim(field)//c_null_char
    set_numbers_attribute = set_numbers_c(run, owner_of(owner), trim(name)//c_null_char, &
                                          size(numbers, kind=c_int64_t), numbers)
  end function

  ! NULL, the dataset, for an empty name.
  type(c_ptr) function owner_of(field)
    character(len=*), intent(in), target :: field
    owner_of = c_null_ptr
    if (len(field) > 1) owner_of = c_loc(field)
  end function

  integer(c_int) function quarry_insitu_set_axis_attribute(run, axis, name, text)
    type(c_ptr), intent(in) :: run
    integer(c_int), intent(in) :: axis
    character(len=*), intent(in) :: name, text
    quarry_insitu_set_axis_attribute = set_axis_attribute_c(run, axis, trim(name)//c_null_char, &
                                                            trim(text)//c_null_char)
  end function

  ! axis: -1 for one text of the whole
  integer(c_int) function quarry_insitu_set_texts(run, name, axis, texts)
    type(c_ptr), intent(in) :: run
    character(len=*), intent(in) :: name
    integer(c_int), intent(in) :: axis
    character(len=*), intent(in) :: texts(:)
    character(kind=c_char), allocatable, target :: characters(:, :)
    type(c_ptr) :: addresses(size(texts))
    integer :: i, j
    allocate (characters(len(texts) + 1, size(texts)))
    do i = 1, size(texts)
      do j = 1, len_trim(texts(i))
        characters(j, i) = texts(i)(j:j)
      end do
      characters(len_trim(texts(i)) + 1, i) = c_null_char
      addresses(i) = c_loc(characters(1, i))
    end do
    quarry_insitu_set_texts = set_texts_c(run, trim(name)//c_null_char, axis, size(texts, kind=c_int64_t), &
                                          addresses)
  end function

  integer(c_int) function quarry_insitu_set_fill(run, field, fill)
    type(c_ptr), intent(in) :: run
    character(len=*), intent(in) :: field
    real(c_double), intent(in) :: fill
    quarry_insitu_set_fill = set_fill_c(run, trim(field)//c_null_char, fill)
  end function

  integer(c_int) function quarry_insitu_set_payload_order(run, order)
    type(c_ptr), intent(in) :: run
    character(len=*), intent(in) :: order
    quarry_insitu_set_payload_order = set_payload_order_c(run, trim(order)//c_null_char)
  end function

  integer(c_int) function quarry_insitu_set_codec(run, field, codec)
    type(c_ptr), intent(in) :: run
    character(len=*), intent(in) :: field, codec
    quarry_insitu_set_codec = set_codec_c(run, trim(field)//c_null_char, trim(codec)//c_null_char)
  end function

  integer(c_int) function quarry_insitu_set_time_unit(run, units, calendar)
    type(c_ptr), intent(in) :: run
    character(len=*), intent(in) :: units, calendar
    quarry_insitu_set_time_unit = set_time_unit_c(run, trim(units)//c_null_char, trim(calendar)//c_null_char)
  end function

  integer(c_int) function quarry_insitu_set_keyframe(run, field, steps)
    type(c_ptr), intent(in) :: run
    character(len=*), intent(in) :: field
    integer(c_int), intent(in) :: steps
    quarry_insitu_set_keyframe = set_keyframe_c(run, trim(field)//c_null_char, steps)
  end function

  integer(c_int) function put_addresses(run, field, type, address)
    type(c_ptr), intent(in) :: run
    character(len=*), intent(in) :: field
    integer(c_int), intent(in) :: type
    type(c_ptr), intent(in) :: address(:)
    put_addresses = put_c(run, trim(field)//c_null_char, type, int(size(address), c_int), address)
  end function

  integer(c_int) function put_real32(run, field, samples)
    type(c_ptr), intent(in) :: run
    character(len=*), intent(in) :: field
    real(c_float), intent(in), target, contiguous :: samples(:, :, :)
    put_real32 = put_addresses(run, field, QUARRY_FLOAT32, [c_loc(samples)])
  end function

  integer(c_int) function put_real64(run, field, samples)
    type(c_ptr), intent(in) :: run
    character(len=*), intent(in) :: field
    real(c_double), intent(in), target, contiguous :: samples(:, :, :)
    put_real64 = put_addresses(run, field, QUARRY_FLOAT64, [c_loc(samples)])
  end function

  ! The message of the last failed call.
  function quarry_insitu_last_message(run) result(message)
    type(c_ptr), intent(in) :: run
    character(len=:), allocatable :: message
    message = text_at(last_message_c(run))
  end function

  ! A warning about published steps, for the user of the program; "" if there is no further one.
  function quarry_insitu_take_warning(run) result(warning)
    type(c_ptr), intent(in) :: run
    character(len=:), allocatable :: warning
    warning = text_at(take_warning_c(run))
  end function

  function text_at(address) result(copy)
    type(c_ptr), intent(in) :: address
    character(len=:), allocatable :: copy
    character(kind=c_char), pointer :: text(:)
    integer :: i
    call c_f_pointer(address, text, [strlen(address)])
    allocate (character(len=size(text)) :: copy)
    do i = 1, size(text)
      copy(i:i) = text(i)
    end do
  end function

end module quarry_insitu
