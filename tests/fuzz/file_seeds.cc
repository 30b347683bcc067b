// Seeds of foreign files, assembled by hand from the specifications of their formats.

#include <fmt/format.h>

#include "quarry/base/checksum.h"
#include "quarry/index/records.h"
#include "tests/fuzz/seeds.h"

namespace quarry::fuzz {
namespace {

// ---- VTK ImageData

std::string Vti(const std::string& attributes, const std::string& array, const std::string& behind = "",
                const std::string& extent = "0 1 0 1 0 1") {
  return "<?xml version=\"1.0\"?>\n<VTKFile type=\"ImageData\" version=\"1.0\" byte_order=\"LittleEndian\"" +
         attributes + ">\n<ImageData WholeExtent=\"" + extent +
         "\" Origin=\"0 0 0\" Spacing=\"1 1 1\">\n<Piece Extent=\"" + extent +
         "\">\n"
         "<PointData>\n<DataArray type=\"Int16\" Name=\"p\" " +
         array + "</DataArray>\n</PointData>\n</Piece>\n</ImageData>\n" + behind + "</VTKFile>\n";
}

/// Eight samples of int16 after their size.
std::string RawSamples() {
  std::string bytes("\x10\0\0\0", 4);
  for (char i = 0; i < 8; ++i) bytes += {i, 0};
  return bytes;
}

void AddVti(Corpus* corpus) {
  corpus->Add("ascii", Vti("", "format=\"ascii\">0 1 2 3 4 5 6 -7"));
  // The size alone, and the samples alone, as VTK encodes them; and both together.
  const std::string base64 = "EAAAAA==AAABAAIAAwAEAAUABgAHAA==";
  corpus->Add("inline", Vti(" header_type=\"UInt32\"", "format=\"binary\">" + base64));
  corpus->Add("inline_together", Vti("", "format=\"binary\">EAAAAAAAAQACAAMABAAFAAYABwA="));
  corpus->Add("appended_raw", Vti("", "format=\"appended\" offset=\"0\">",
                                  "<AppendedData encoding=\"raw\">_" + RawSamples() + "</AppendedData>\n"));
  corpus->Add("appended_base64", Vti("", "format=\"appended\" offset=\"0\">",
                                     "<AppendedData encoding=\"base64\">_" + base64 + "</AppendedData>\n"));
  // zlib without compression: 78 01, a stored block, its length and complement, the samples, Adler-32.
  std::string packed("\x78\x01\x01\x10\0\xef\xff", 7);
  packed += RawSamples().substr(4);
  std::uint32_t a = 1;
  std::uint32_t b = 0;
  for (const char c : RawSamples().substr(4)) b += a += static_cast<unsigned char>(c);
  for (const std::uint32_t byte : {b >> 8, b, a >> 8, a}) packed += static_cast<char>(byte & 0xff);
  std::string blocks("\1\0\0\0\x10\0\0\0\0\0\0\0", 12);
  blocks += std::string{static_cast<char>(packed.size()), 0, 0, 0};
  corpus->Add("zlib", Vti(" compressor=\"vtkZLibDataCompressor\"", "format=\"appended\" offset=\"0\">",
                          "<AppendedData encoding=\"raw\">_" + blocks + packed + "</AppendedData>\n"));
  // A rectilinear grid, an image of two pieces, and one that has its pieces in other files.
  corpus->Add("rectilinear",
              "<VTKFile type=\"RectilinearGrid\"><RectilinearGrid WholeExtent=\"0 2 0 1 0 0\"><Piece "
              "Extent=\"0 2 0 1 0 "
              "0\"><PointData><DataArray type=\"Int8\" Name=\"p\" format=\"ascii\">1 2 3 4 5 "
              "6</DataArray></PointData>"
              "<Coordinates><DataArray type=\"Float32\" format=\"ascii\">0 1 4</DataArray><DataArray "
              "type=\"Float64\" "
              "format=\"ascii\">0 1</DataArray><DataArray type=\"Float32\" "
              "format=\"ascii\">7</DataArray></Coordinates>"
              "</Piece></RectilinearGrid></VTKFile>");
  corpus->Add(
      "two_pieces",
      "<VTKFile type=\"ImageData\"><ImageData WholeExtent=\"0 2 0 0 0 0\" Origin=\"0 0 0\" Spacing=\"1 1 1\">"
      "<Piece Extent=\"0 1 0 0 0 0\"><PointData><DataArray type=\"Int8\" Name=\"p\" format=\"ascii\">1 2"
      "</DataArray></PointData></Piece><Piece Extent=\"1 2 0 0 0 0\"><PointData><DataArray type=\"Int8\" "
      "Name=\"p\" format=\"ascii\">2 3</DataArray></PointData></Piece></ImageData></VTKFile>");
  corpus->Add("pieces_in_files",
              "<VTKFile type=\"PImageData\"><PImageData WholeExtent=\"0 1 0 0 0 0\" Origin=\"0 0 0\" "
              "Spacing=\"1 1 1\">"
              "<Piece Extent=\"0 1 0 0 0 0\" Source=\"../none.vti\"/></PImageData></VTKFile>");
  const std::string legacy =
      "# vtk DataFile Version 3.0\nt\nASCII\nDATASET STRUCTURED_POINTS\nDIMENSIONS 2 1 2\n";
  corpus->Add("legacy_text",
              legacy +
                  "ORIGIN 0 0 0\nSPACING 1 1 1\nFIELD FieldData 1\nTIME 1 1 double\n2.5\nPOINT_DATA "
                  "4\nSCALARS a%20b short\nLOOKUP_TABLE default\n1 2 3\n4\nMETADATA\nINFORMATION 0\n\n"
                  "VECTORS v float\n1 2 3 4 5 6 7 8 9 10 11 12\n");
  std::string binary = legacy + "CELL_DATA 1\nFIELD FieldData 2\nw 1 1 string\n";
  binary.replace(binary.find("ASCII"), 5, "BINARY");
  corpus->Add("legacy_binary", binary + "\xc1x\nq 1 1 float\n\x3f\x80" + std::string(2, '\0') + "\n");
  corpus->Add(
      "legacy_rectilinear",
      "# vtk DataFile Version 3.0\nt\nASCII\nDATASET RECTILINEAR_GRID\nDIMENSIONS 2 1 1\nX_COORDINATES 2 "
      "float\n0 1\nY_COORDINATES 1 float\n0\nZ_COORDINATES 1 double\n5\nPOINT_DATA 2\nSCALARS p char 1\n1 "
      "2\n");
  // One block that claims to hold a terabyte.
  std::string large("\1\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0", 24);
  large += std::string{static_cast<char>(packed.size()), 0, 0, 0, 0, 0, 0, 0};
  corpus->Add("zlib_terabyte", Vti(" header_type=\"UInt64\" compressor=\"vtkZLibDataCompressor\"",
                                   "format=\"appended\" offset=\"0\">",
                                   "<AppendedData encoding=\"raw\">_" + large + packed + "</AppendedData>\n",
                                   "0 1048575 0 1023 0 511"));
}

// ---- Classic NetCDF

class ClassicFile {
 public:
  explicit ClassicFile(char version) : version_(version), bytes_("CDF") { bytes_ += version; }

  void Number(std::uint64_t value, std::size_t size = 4) {
    for (std::size_t i = size; i-- > 0;) bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
  }
  void Count(std::uint64_t value) { Number(value, version_ == 5 ? 8 : 4); }
  void Offset(std::uint64_t value) { Number(value, version_ == 1 ? 4 : 8); }
  void Text(const std::string& text) {
    Count(text.size());
    bytes_ += text;
    bytes_.resize((bytes_.size() + 3) / 4 * 4, '\0');
  }
  void Samples(std::size_t count) { bytes_.append(count, '\1'); }
  const std::string& bytes() const { return bytes_; }

 private:
  const char version_;
  std::string bytes_;
};

/// Dimensions time (of records) and x, an attribute, and two variables.
std::string Classic(char version) {
  ClassicFile file(version);
  file.Count(2);  // records
  file.Number(10);
  file.Count(2);
  file.Text("time");
  file.Count(0);
  file.Text("x");
  file.Count(3);
  file.Number(12);
  file.Count(1);
  file.Text("title");
  file.Number(2);
  file.Text("of a file");
  file.Number(11);
  file.Count(2);
  for (const bool of_records : {true, false}) {
    file.Text(of_records ? "p" : "q");
    file.Count(of_records ? 2 : 1);
    if (of_records) file.Count(0);
    file.Count(1);
    file.Number(0);
    file.Count(0);
    file.Number(5);  // float
    file.Count(12);
    file.Offset(of_records ? 400 : 300);
  }
  file.Samples(200);
  return file.bytes();
}

// ---- NumPy

std::string Npy(const std::string& descr, const std::string& shape, std::size_t bytes, bool fortran = false) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", descr,
                                   fortran ? "True" : "False", shape);
  constexpr std::size_t kPrefix = 10;
  header.resize((kPrefix + header.size() + 64) / 64 * 64 - kPrefix - 1, ' ');
  header += '\n';
  std::string file("\x93NUMPY\1\0", 8);
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  return file + header + std::string(bytes, '\1');
}

std::string Little(std::uint64_t value, std::size_t size) {
  std::string bytes;
  for (std::size_t i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

/// An archive of one file. Deflate without compression has 5 bytes before up to 65535 others.
std::string Npz(const std::string& npy, bool deflated) {
  const std::string data =
      deflated ? '\1' + Little(npy.size(), 2) + Little(~npy.size() & 0xffff, 2) + npy : npy;
  std::uint32_t checksum = 0xffffffff;
  for (const char c : npy) {
    checksum ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) checksum = checksum >> 1 ^ (checksum & 1 ? 0xedb88320 : 0);
  }
  const std::string name = "p.npy";
  const std::string numbers = Little(deflated ? 8 : 0, 2) + Little(0, 4) + Little(~checksum, 4) +
                              Little(data.size(), 4) + Little(npy.size(), 4) + Little(name.size(), 2) +
                              Little(0, 2);
  const std::string file = "PK\3\4" + Little(20, 2) + Little(0, 2) + numbers + name + data;
  const std::string entry =
      "PK\1\2" + Little(20, 2) + Little(20, 2) + Little(0, 2) + numbers + Little(0, 14) + name;
  return file + entry + "PK\5\6" + Little(0, 4) + Little(1, 2) + Little(1, 2) + Little(entry.size(), 4) +
         Little(file.size(), 4) + Little(0, 2);
}

void AddNpy(Corpus* corpus) {
  corpus->Add("stored_archive", Npz(Npy("<f4", "(2, 3)", 24), false));
  corpus->Add("deflated_archive", Npz(Npy("<i2", "(2, 3, 4)", 48, true), true));
  corpus->Add("small", Npy("<f4", "(2, 3, 4)", 96));
  corpus->Add("fortran", Npy("<f8", "(2, 3)", 48, true));
  corpus->Add("big_endian", Npy(">i2", "(5,)", 10));
  corpus->Add("too_short", Npy("|u1", "(100, 100, 100)", 3));
}

// ---- TIFF

class TiffFile {
 public:
  explicit TiffFile(bool big_endian) : big_endian_(big_endian), bytes_(big_endian ? "MM" : "II") {
    Number(42, 2);
  }
  void Number(std::uint32_t value, int size) {
    for (int i = 0; i < size; ++i)
      bytes_ += static_cast<char>(value >> (8 * (big_endian_ ? size - 1 - i : i)) & 0xff);
  }
  /// One value, short or long.
  void Tag(std::uint32_t tag, std::uint32_t value, bool is_long = false) {
    Number(tag, 2);
    Number(is_long ? 4 : 3, 2);
    Number(1, 4);
    Number(value, is_long ? 4 : 2);
    if (!is_long) Number(0, 2);
  }
  const std::string& bytes() const { return bytes_; }
  std::string& bytes() { return bytes_; }

 private:
  const bool big_endian_;
  std::string bytes_;
};

/// Two pages of 4 x 3 samples of 16 bits in one strip each.
/// @param description  of every page; empty: none
std::string Tiff(bool big_endian, const std::string& description = "") {
  TiffFile file(big_endian);
  const std::uint32_t kTags = description.empty() ? 9 : 10;
  const std::uint32_t kPage = 2 + 12 * kTags + 4;
  constexpr std::uint32_t kSamples = 24;
  constexpr std::uint32_t kFirst = 8;
  file.Number(kFirst, 4);
  for (std::uint32_t page = 0; page < 2; ++page) {
    file.Number(kTags, 2);
    file.Tag(256, 4);   // width
    file.Tag(257, 3);   // length
    file.Tag(258, 16);  // bits
    file.Tag(259, 1);   // not compressed
    file.Tag(262, 1);   // black is zero
    if (!description.empty()) {
      file.Number(270, 2);
      file.Number(2, 2);
      file.Number(static_cast<std::uint32_t>(description.size()), 4);
      file.Number(kFirst + 2 * kPage + 2 * kSamples, 4);
    }
    file.Tag(273, kFirst + 2 * kPage + page * kSamples, true);
    file.Tag(277, 1);  // samples of a pixel
    file.Tag(278, 3);  // rows of a strip
    file.Tag(279, kSamples, true);
    file.Number(page == 0 ? kFirst + kPage : 0, 4);
  }
  file.bytes().append(2 * kSamples, '\1');
  file.bytes() += description;
  return file.bytes();
}

// ---- Ours

void AddConfig(Corpus* corpus) {
  corpus->Add("good", "root = \"/data\"\nmemory = \"4GiB\"\ncalls = 50\nquiet = true\n# a comment\n");
  corpus->Add("unknown", "rooot = 'x'\n[section]\ncalls = [1, 2]\n");
  corpus->Add("wrong", "calls = many\nquiet = 7\nmemory = \"\"\"\n");
}

void AddTokens(Corpus* corpus) {
  // SHA-256 of "secret" and "other", by sha256sum.
  const std::string secret = "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
  const std::string other = "sha256:d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa";
  corpus->Add("one", "alice " + secret + " *\n");
  corpus->Add("two", "# people\n\nalice " + secret + " run42 wind/*\nbob\t" + other + "  t? [a-c]* \\x\n");
  corpus->Add("the_same_twice", "alice " + secret + " *\nbob " + secret + " *\n");
  corpus->Add("half_a_line", "alice " + secret + " *\nbob sha256:");
}

void AddSeals(Corpus* corpus) {
  const std::string checksum = ChecksumText(0x0123456789abcdef);
  const std::string sealed =
      fmt::format("{} {} 4096 7 0 4 5 {} 8 9 2 {} {} 8192 1 6 6 1 {}", index::kIndexVersion, checksum,
                  checksum, checksum, checksum, checksum);
  const std::string range = "{{\"first\": {}, \"last\": {}, \"steps\": {}, \"marks\": \"" + checksum + "\"}}";
  const std::string pieces = fmt::format(
      "{{\"checksum\": \"{}\", \"bytes\": 4096, \"steps\": 7, \"ranges\": [{}, {}]}}, "
      "{{\"checksum\": \"{}\", \"bytes\": 8192, \"steps\": 1, \"ranges\": [{}]}}",
      checksum, fmt::format(fmt::runtime(range), 0, 4, 5), fmt::format(fmt::runtime(range), 8, 9, 2),
      checksum, fmt::format(fmt::runtime(range), 6, 6, 1));
  for (const char repair : {'\0', '\1'}) {
    corpus->Add(
        repair == 0 ? "as_it_is" : "repaired",
        fmt::format("{}{{\n \"version\": {},\n \"pieces\": [{}],\n \"seal\": \"{}\"\n}}\n", repair,
                    index::kIndexVersion, pieces, ChecksumText(Checksum(std::as_bytes(std::span(sealed))))));
  }
}

}  // namespace

bool AddFiles(const std::string& folder) {
  Corpus vti(folder, "vti");
  AddVti(&vti);
  Corpus classic(folder, "netcdf_classic");
  for (const char version : {1, 2, 5}) classic.Add(fmt::format("cdf{}", int{version}), Classic(version));
  classic.Add("another_format", std::string("\x89HDF\r\n\x1a\n"));
  Corpus tokens(folder, "tokens");
  AddTokens(&tokens);
  Corpus seal(folder, "seal");
  AddSeals(&seal);
  Corpus npy(folder, "npy");
  AddNpy(&npy);
  Corpus tiff(folder, "tiff");
  for (const bool big_endian : {false, true}) tiff.Add(big_endian ? "big" : "little", Tiff(big_endian));
  tiff.Add(
      "imagej",
      Tiff(false, std::string("ImageJ=1.53\nimages=2\nframes=2\nfinterval=2\nunit=um\nspacing=3\n\0", 61)));
  tiff.Add("imagej_beyond",
           Tiff(true, std::string("ImageJ=1.53\nimages=999999\nframes=999999\nfinterval=2\n\0", 53)));
  tiff.Add("shaped", Tiff(false, std::string("{\"shape\": [2, 1, 3, 4], \"axes\": \"ZTYX\"}\0", 40)));
  tiff.Add("ome",
           Tiff(false,
                "<?xml version=\"1.0\"?><OME><Image ID=\"I\"><Pixels DimensionOrder=\"XYCZT\" SizeX=\"4\" "
                "SizeY=\"3\" SizeZ=\"1\" SizeC=\"1\" SizeT=\"2\" PhysicalSizeX=\"0.5\" "
                "TimeIncrement=\"2\"><TiffData "
                "IFD=\"0\" FirstT=\"1\"/><TiffData IFD=\"1\" PlaneCount=\"1\"/><Plane TheZ=\"0\" TheC=\"0\" "
                "TheT=\"1\" DeltaT=\"3\"/></Pixels></Image></OME>\n"));
  Corpus config(folder, "config");
  AddConfig(&config);
  if (!npy.ok() || !tiff.ok() || !config.ok()) return false;
  return vti.ok() && classic.ok() && tokens.ok() && seal.ok();
}

}  // namespace quarry::fuzz
