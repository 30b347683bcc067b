/**
 * Colour maps as 65 colours at even distances, six hexadecimal digits each; between them, colours are mixed linearly. All
 * are perceptually even, and readable with the common kinds of colour blindness. viridis, magma and cividis are those of
 * matplotlib, ice, thermal and balance those of cmocean (Thyng et al. 2016), coolwarm that of Moreland (2009).
 */
const kTables: Readonly<Record<string, string>> = {
  viridis:
    "44015446065a470d6047136548186a481d6f482374482878472d7b46327e453681443b844240864045873f49893d4e8a3b528b39568c"
    + "375a8d355e8d33638d31668e2f6a8e2e6e8e2c728e2b768e297a8e287d8e26818e25858e23898e228c8d21908c20948c1f988b1e9b8a"
    + "1f9f8820a38721a68524aa8328ae802cb17e31b57b37b8773ebc7445bf704cc26c54c6675dc96365cc5d6ece5878d15282d34c8cd646"
    + "96d83fa0da39abdc32b5de2bc0df24cbe11fd5e21ae0e318eae51af4e61efde725",
  magma:
    "00000402010903031106051a0a08220e0b2b130d33180f3d1d114622115028115a2f116336106a3d0f71430f764a107950127c57147e"
    + "5d177f631980691c816f1e817621817c23828226818928818f2a81952c809c2e7fa2307ea9327daf347bb63779bc3977c33b75c93e72"
    + "cf4170d6446ddb486ae14c66e65163ea5661ee5c5ef2635df5695cf7715cf9785dfa805efb8761fc8f64fd9668fe9e6cfea571fead76"
    + "feb47bfebb81fec387feca8dfed194fed99bfde0a2fde7a9fceeb0fcf6b8fcfdbf",
  cividis:
    "00224e00255400285b002b62002e6a0030700433711135701a386f213b6e273e6e2d416d32436d36466c3b496c3f4c6c434e6c47516c"
    + "4b546c4f576c52596d565c6d5a5f6e5d626e61656f646770686a716b6d726f70737273747576767978777c7b78807e78848179878478"
    + "8b87788f8a78938d789790779b93769f9676a39a75a79d74aba072afa371b3a670b7aa6ebbad6cbfb06bc3b469c8b766ccba64d0be61"
    + "d4c15fd9c55cddc958e1cc55e6d051ead44cefd748f4db42f8df3cfde334fee838",
  gray:
    "0000000404040808080c0c0c1010101414141818181c1c1c2020202424242828282c2c2c3030303434343838383c3c3c404040444444"
    + "4848484c4c4c5050505454545858585c5c5c6060606464646868686c6c6c7070707474747878787c7c7c8080808383838787878b8b8b"
    + "8f8f8f9393939797979b9b9b9f9f9fa3a3a3a7a7a7abababafafafb3b3b3b7b7b7bbbbbbbfbfbfc3c3c3c7c7c7cbcbcbcfcfcfd3d3d3"
    + "d7d7d7dbdbdbdfdfdfe3e3e3e7e7e7ebebebefefeff3f3f3f7f7f7fbfbfbffffff",
  ice:
    "0406130709180b0d1e0f102413132916172f1a1a351e1d3b21204124234728264d2b29542e2c5a312f6033326736356e3838743a3c7b"
    + "3c3f823d43883e468e3f4a943f4e9a3f529f3f57a33e5ba73e60aa3e64ad3e69b03f6db24072b44176b6427ab7447fb94683ba4887bc"
    + "4b8cbd4e90bf5194c05498c2589cc35ba1c55fa5c663a9c867adca6bb2cb70b6cd74bace7abed07fc2d285c6d48bcad592ced799d2d9"
    + "a0d6dca8d9deafdde1b7e1e4bee5e8c6e8ebcdecefd5f0f2dcf4f6e3f9faeafdfd",
  thermal:
    "04233305263b052943072b4b082e540b305d0e316713337118337c1f348727349130339939339e4134a049369f50389e563b9c5c3e9a"
    + "6140986743966c4695724893774b917d4d90824f8f87528d8d548c93568b98588a9e5a88a45b86aa5d84b05f82b6617fbc637dc26579"
    + "c86676ce6872d36b6ed96d69de7065e37360e8765bec7a56f07e51f3824df58748f88d45f99242fa983ffb9e3efca43dfcab3cfcb13d"
    + "fbb83dfabe3ff9c541f8cb43f7d246f5d949f3df4cf1e650eeed53ebf457e8fa5b",
  balance:
    "181c431c224f20275b232d68263276283784293c932942a12548af1c50ba1059be0a62be0e6abd1872bb2379bb2d80ba3887ba428eba"
    + "4d95ba589bbb64a2bc70a8bd7dadbf8ab3c296b9c5a3bfc8afc5cdbacbd1c6d1d6d1d8dbdddfe1e7e6e6f1ececede4e2e9dbd7e6d1cb"
    + "e3c8c0e0bfb4ddb5a9daac9dd7a392d59a86d2917bcf8870cc7f65c9765ac66c4fc36345c0593cbc4f33b9452cb43a27af3024a92624"
    + "a11d259915278f1029850e297b0e29700e27650f245b0e20500d1c460b173c0912",
  coolwarm:
    "3b4cc03f53c6445acc4961d24d68d7526edc5775e15d7be66282ea6788ee6c8ef17294f4779af77ca0f982a5fb87aafc8db0fe93b4fe"
    + "98b9ff9ebdffa3c2fea8c5feaec9fcb3ccfbb8d0f9bdd2f7c2d5f4c7d7f1ccd9eed0daead5dbe6d9dce1dddddde1dbd7e5d8d1e8d6cb"
    + "ecd3c5eed0bff1ccb9f3c8b3f4c4adf6c0a7f7bba0f7b69af7b194f7ab8df7a687f5a081f49a7bf29375f18d6fee8669ec7f63e8775d"
    + "e57058e16852de604dd95847d55042d0473dcb3e38c53334c0282fba162bb40426",
};

/** Maps with a neutral middle: for fields with a sign. */
const kDiverging: ReadonlySet<string> = new Set(["balance", "coolwarm"]);

export const kColourMaps: readonly string[] = Object.keys(kTables);
export const kMapEntries = 256;
const kPoints = 65;

export function isDiverging(map: string): boolean {
  return kDiverging.has(map);
}

/** The row of a map in the table of all; the first one for an unknown name. */
export function mapRow(map: string): number {
  return Math.max(0, kColourMaps.indexOf(map));
}

function channel(table: string, point: number, offset: number): number {
  return parseInt(table.slice(point * 6 + offset * 2, point * 6 + offset * 2 + 2), 16);
}

/** Red, green and blue from 0 to 255 at a share of the range; shares outside of it have the colours of its ends. */
export function mapColour(map: string, share: number): readonly [number, number, number] {
  const table = kTables[map] ?? kTables.viridis!;
  const at = Math.min(1, Math.max(0, share)) * (kPoints - 1);
  const point = Math.min(kPoints - 2, Math.floor(at));
  const mix = (offset: number): number => {
    const low = channel(table, point, offset);
    return Math.round(low + (channel(table, point + 1, offset) - low) * (at - point));
  };
  return [mix(0), mix(1), mix(2)];
}

/** All maps, one a row, as RGBA: the texture in which the shaders look up colours. */
export function mapTable(): Uint8Array {
  const table = new Uint8Array(kColourMaps.length * kMapEntries * 4);
  kColourMaps.forEach((map, row) => {
    for (let entry = 0; entry < kMapEntries; ++entry)
      table.set([...mapColour(map, entry / (kMapEntries - 1)), 255], (row * kMapEntries + entry) * 4);
  });
  return table;
}
