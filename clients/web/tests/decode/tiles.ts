/** Tiles of 9 x 7 samples, without their checksums: written by quarry-write-single as patches of one level; the samples are those of "quarry get". */
import type { SampleType } from "../../src/model";

export interface GoldenTile {
  readonly name: string;
  readonly type: SampleType;
  /** The coder, the mask, the samples. [base64] */
  readonly content: string;
  readonly samples: string;
}

export const kTiles: readonly GoldenTile[] = [
  {
    name: "smooth", type: "float32",
    content: "AgABitWjPAAAwD8EAvC/gAgCwdOFWAq4OhKCAN0Czh/00wEAX/TnXp1s1t0OCgBb8PAAD6UBjF3nEcTFoQ==",
    samples: "AADAP2T16D+j/wdAEsIVQOoTHkCKhB9A044aQBrrDUC+4Po/BM2oP8yI0j8mcPY/vvQJQGx6EkBU3BNAdfoNQADoAkC41uM/Hu1RP5dckT+o" +
      "wrU/o8zSP2Me5T9UR+c/tCjcP1KPxD/3R6E/H/HjPVIU4j5xcjs/tidyP+Zmij/W74w/NXGCPzSyVT9fXg8/WLMev1DtmL7I3nS8tM5VPpw4" +
      "sz51Yb8+6A+XPh45xT1wxyO+OWOavzKwXr+aDxS//my8vjfbcb6k5Vu+FuOVvhMG875haz2/JG29v8J3lL9s+l+/WmEmv6SKAr/vrv6+qb0V" +
      "v+ItQ79mjIK/",
  },
  {
    name: "holes", type: "float32",
    content: "AggCxH+AGqWIvwAAgL8AAYrVozwAAMA/AAkC8F0h7Ii6isMOAsuWm4wc4U+jqFWiajiCAJhhuQ4AlcfS32xKEItJ1k35O2YehuTcV4KtSg==",
    samples: "AADAPziZ6T/iCQdAJnAVQL+3HkB/rR9AAACAvwAAgL8AAIC/+fWoPwFc0T+yMvc/+44JQPFlEkBzURNAAACAvwAAgL8AAIC/Hu1RP7y4kj8+" +
      "XLc/PGbSP+Ey4z8WPeY/AACAvwAAgL8AAIC/GOfMPb364D4skTo/H6V0P9qPij+UhY0/92aCP1P3VD+yFg4/WLMev3tJmL7o3nS8BodUPpo4" +
      "sz7xnrk+5Q+XPhdD3D14xyO+Gd6av+E3Xr8/gBO/8RW9vt3GY76sYE2+Uu2YvgWv9r64Izy/JG29vyIHk7+Wf1u/mWslv0/SA7/EpPe+f4oS" +
      "v/nbQr8T1IO/",
  },
  {
    name: "exact", type: "float64",
    content: "AwACAAACAKSt/yKNAgCSWmJqKwIAwakVD0UCAMGNt4tzAgAOFDM8FwIAjeuVdT8C8BcIxnQ3An8AAP///wVAAAKslGCKEIoO1AABAAAAAAI+" +
      "1OcHDwe5AgAAAAAAAAIcTvV16nVOggAAAAAAAAKyeKQECAT6hwAAAAAAAAKxCt5kyGTIdQAAAAAAAALR7EZx4nFXHQAAAAAAAAIbCw8GDAYC" +
      "AwAAAAAAAACFQAAC7Oj29up6rtrarpcvwekvskzYIAAAAAABAQEEAgAAAQAEABQCAAAAAAAAACIAANUAAKDBweDgwX0PBwcPHj30gD30l1bE" +
      "AAEAasAEIgAA1QAAoK2t1tat8F6vr14MGGCGGDSbdqkAAQBqwAQiAADVAACgX1+vr1/K2ezs2ShQQE5QRwjJOAABAGrABCIAANUAAKAbG42N" +
      "G957vb17dOihreiJt2sGAAEAasAEIgAA1QAAoC0tFhYtKyUSEiVp0kvd0pO94KMAAQBqwAQeAAC1AACAAgIBAQIBAAAAAAIEEw0EAAEAQrAE" +
      "AA==",
    samples: "AAAAAAAA+D8yoKKBMDz9P9klCN5r8gBAPEPCI1W7AkBSyeBgh8YDQJ7GhXKY9gNAEm20uj1GA0CYHzJA4cgBQPsbDBr9UP8//J3EBN4P9T8u" +
      "PmeGDkz6P67p1MC19P4/OpIkJkRDAUBQGENjdk4CQJwV6HSHfgJAELwWvSzOAUCWbpRC0FAAQPe50B7bYPw/0omPFzzv6T8aZWqNzjPyP5wQ" +
      "2Md13PY/YEtMU0hu+j+OV4nNrIT8PyRS0/DO5Pw/DJ8wgRmE+z8aBCyMYIn4P+Tg0yWbSPQ/evao978puz9kvnQEMrvbPzS2FXfnLuc/vSv+" +
      "jYxS7j8NIjzBqj/xP6MchuTMn/E/i2njdBc/8D8xnb3/vIjqP8VWDTMyB+I/hJV+wZz5479CqnJ8dwLTv4AP/66k9ne/qN0pNt/Oyz+MHwmE" +
      "AUHWP+QJMRGKwdc/hD2mUrQ+0j/wRk/6QU+5Pzp2mTWKXsW/niik8zk687/ZEAPkEvzrv9e5J2/EquK/nIh+sD4O17/IrxSPWWnNvxjbxHRI" +
      "aMq/7Dnt+Pm20r+0pf/M3aHev0YZMLN50ue/XmzkjoPC978szEENU4byv1dBqKVXu+u/zsu/jrKX5L9ys0Wa6Wrgv4x8Y6dKVd+/diT3MhBs" +
      "4r9aWgAdgmHov2NQ2HSGcfC/",
  },
  {
    name: "labels", type: "int16",
    content: "AwACAAACBgUABgIAAAQBAAAABAEAAAA=",
    samples: "AwADAAMAAwAAAAAAAAAAAAAAAwADAAMAAwABAAEAAQABAAEAAwADAAMAAwACAAIAAgACAAIAAwADAAMAAwADAAMAAwADAAMAAwADAAMAAwAE" +
      "AAQABAAEAAQAAwADAAMAAwAFAAUABQAFAAUAAwADAAMAAwAGAAYABgAGAAYA",
  },
  {
    name: "signs", type: "float32",
    content: "BgABJbW/OwAJAms/+Hf4/x8AIbTMzD4AAMA/BAL1/4AFAtQ9n6AIAnP83+KKVeQCAG6/wXE=",
    samples: "AADAPyoh3z9UQv4/v7EOQFRCHkDmfB9AebcgQCx3DUDAbfQ/r/GSP1z+wz9QUgdAWCABQCy7B0AQrgdA9KAHQHcd+D+ckvo/vcZLP/hBjz+S" +
      "oLg/TITNPwZo4j9zvt8/4BTdP/+yuz8eUZo/BPX9Pch80D4ovjA/DMNkP/hjjD9SDII/VmlvP7sBPD8gmgg/fEkMv1EOnL5QTXy9+vU5PqR/" +
      "2T69aJE+rKMSPiW1vzvwtw2+7q2Hv6qePL/uwtO+BDSAvmyUsr2JjBe+3M5VvhL0275bgCa/HTfJvxWblb8Z/kO/g7Euv+1kGb+jehS/WZAP" +
      "v4qRXL9dyZS/",
  },
];
