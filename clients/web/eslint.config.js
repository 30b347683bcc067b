import tseslint from "typescript-eslint";

/**
 * The rooms of src, and what each may import from outside of itself: folders end with "/". docs/viewer.md has the same
 * table, and tests/rooms.test.ts compares them.
 */
const kRooms = {
  "model.ts": [],
  "errors.ts": ["model"],
  "wide_integers.ts": ["model"],
  "geometry.ts": ["model"],
  "reading.ts": ["model"],
  "bucket/": ["model", "errors", "reading"],
  "decode/": ["model", "reading", "wide_integers"],
  "net/": ["model", "errors", "geometry", "reading"],
  "store/": ["model", "errors", "geometry", "reading", "wide_integers"],
  "state/": ["model", "geometry"],
  "render/": ["model", "geometry"],
  "ui/": ["model", "errors", "geometry", "render/", "state/"],
  "source.ts": ["model", "errors", "reading", "bucket/", "decode/", "net/", "store/"],
  "main.ts": ["source", "net/", "state/", "ui/"],
};
/** The room that knows other libraries, and the messages that are made from proto/. */
const kLibraries = { "net/": ["@bufbuild/", "@connectrpc/", "../../build/proto/"] };

/** A regular expression of a name; all below it if it ends with "/". */
function expression(name, below) {
  return name.replaceAll(".", "\\.") + (name.endsWith("/") ? below : "$");
}

function refusal(files, regex, message) {
  return { files: [files], rules: { "no-restricted-imports": ["error", { patterns: [{ regex, message }] }] } };
}

/** Types count as well. */
function roomRule(room) {
  const isFolder = room.endsWith("/");
  const allowed = [
    ...(isFolder ? ["\\./(?!app$)[^/]+$"] : []),
    ...kRooms[room].map((name) => expression(`${isFolder ? ".." : "."}/${name}`, "[^/]+$")),
    ...(kLibraries[room] ?? []).map((name) => expression(name, ".*")),
  ];
  const regex = allowed.length === 0 ? "." : `^(?!${allowed.join("|")})`;
  const message = `docs/viewer.md says what src/${room} may import.`;
  return refusal(`src/${room}${isFolder ? "**" : ""}`, regex, message);
}

export default tseslint.config(
  { ignores: ["build", "node_modules"] },
  ...tseslint.configs.strictTypeChecked,
  { languageOptions: { parserOptions: { projectService: { allowDefaultProject: ["eslint.config.js"] }, tsconfigRootDir: import.meta.dirname } } },
  { rules: { "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true, allowBoolean: true }],
             "@typescript-eslint/no-non-null-assertion": "off",
             // Types are imported where all can see it, and no-restricted-imports as well.
             "@typescript-eslint/consistent-type-imports": ["error", { disallowTypeAnnotations: true }] } },
  { files: ["src/**"], rules: { "max-lines": ["error", 500] } },
  refusal("src/**", ".", "This file is in no room: see kRooms in eslint.config.js."),
  ...Object.keys(kRooms).map(roomRule),
);
